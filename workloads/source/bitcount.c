/*
 * Counts the set bits of a sequence of numbers with five algorithms. A new implementation of the task of
 * the cBench program bitcount.
 *
 *	bitcount [NUMBERS]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char of_byte[256];

static unsigned
one_by_one(uint32_t x)
{
	unsigned n = 0;

	for (; x; x >>= 1)
		n += x & 1;
	return n;
}

static unsigned
clear_lowest(uint32_t x)
{
	unsigned n = 0;

	for (; x; x &= x - 1)
		n++;
	return n;
}

static unsigned
by_halves(uint32_t x)
{
	x = (x & 0x55555555) + (x >> 1 & 0x55555555);
	x = (x & 0x33333333) + (x >> 2 & 0x33333333);
	x = (x & 0x0f0f0f0f) + (x >> 4 & 0x0f0f0f0f);
	x = (x & 0x00ff00ff) + (x >> 8 & 0x00ff00ff);
	return (x & 0xffff) + (x >> 16);
}

static unsigned
by_table(uint32_t x)
{
	return of_byte[x & 255] + of_byte[x >> 8 & 255] + of_byte[x >> 16 & 255] + of_byte[x >> 24];
}

static unsigned
by_nibbles(uint32_t x)
{
	return x ? of_byte[x & 15] + by_nibbles(x >> 4) : 0;
}

int
main(int argc, char **argv)
{
	static unsigned (*const ways[])(uint32_t) =
		{ one_by_one, clear_lowest, by_halves, by_table, by_nibbles };
	long numbers = argc > 1 ? atol(argv[1]) : 1000000;
	unsigned long sum = 0;

	for (int byte = 0; byte < 256; byte++)
		of_byte[byte] = one_by_one(byte);
	for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++) {
		uint32_t x = 12345;

		for (long i = 0; i < numbers; i++, x += 13)
			sum += ways[way](x);
	}
	printf("%lu\n", sum);
	return 0;
}
