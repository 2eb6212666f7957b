/*
 * Creates the input of the shipped workloads: a picture as PPM and as TIFF, and a text.
 *
 *	make-input DIR
 *
 * All data comes from a fixed seed, so the files are the same on every machine. Each file is written
 * under a temporary name and then renamed, so a file with its final name is complete. The workloads
 * also use this source file as input of the compiler.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	WIDTH = 4000,		/* pixels */
	HEIGHT = 3000,		/* pixels */
	TEXT_BYTES = 32000000,
	N_WORDS = 30000,	/* different words in the text */
	WORD_MAX = 12,		/* letters */
	LINE_WIDTH = 76,	/* characters per line */
};

/* State of the random number generator (xorshift64*); never zero. */
static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t
next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1du;
}

/* A uniform number below `bound`, which must be much smaller than 2^32. */
static uint32_t
below(uint32_t bound)
{
	return (uint32_t)(((next() >> 32) * bound) >> 32);
}

static void
die(const char *what)
{
	fprintf(stderr, "make-input: cannot write %s: %s\n", what, strerror(errno));
	exit(1);
}

static void
put_name(char *path, size_t size, const char *directory, const char *name, const char *end)
{
	int length = snprintf(path, size, "%s/%s%s", directory, name, end);

	if (length < 0 || (size_t)length >= size) {
		errno = ENAMETOOLONG;
		die(name);
	}
}

static FILE *
begin(const char *directory, const char *name)
{
	char path[4096];
	FILE *file;

	put_name(path, sizeof(path), directory, name, ".part");
	file = fopen(path, "wb");
	if (!file)
		die(path);
	return file;
}

static void
end(FILE *file, const char *directory, const char *name)
{
	char part[4096], path[4096];

	put_name(part, sizeof(part), directory, name, ".part");
	put_name(path, sizeof(path), directory, name, "");
	if (ferror(file) || fclose(file) || rename(part, path))
		die(path);
}

/*
 * Height of a triangle wave at x. The picture is a landscape: a sky with a gradient, hills of triangle
 * waves, a sun, and sensor noise. Image encoders spend their time on smooth areas, edges and noise.
 */
static int
hill(int x, int period, int height)
{
	int phase = x % period;
	int half = period / 2;

	return height * (phase < half ? phase : period - phase) / half;
}

static uint8_t
grained(int value)
{
	int grain = (int)below(17) - 8;

	value += grain;
	return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void
draw(uint8_t *pixels)
{
	for (int y = 0; y < HEIGHT; y++) {
		for (int x = 0; x < WIDTH; x++) {
			uint8_t *pixel = pixels + 3 * ((size_t)y * WIDTH + (size_t)x);
			int far = 1300 + hill(x, 900, 260);
			int near = 1900 + hill(x + 350, 1500, 420) - hill(x, 170, 60);
			int64_t dx = x - 2900, dy = y - 600;
			int red = 90 + y / 16, green = 140 + y / 20, blue = 235 - y / 60;

			if (dx * dx + dy * dy < 300 * 300) {
				red = 250;
				green = 235;
				blue = 150;
			}
			if (y > far) {
				red = 70;
				green = 95 + hill(x + y, 64, 20);
				blue = 90;
			}
			if (y > near) {
				red = 60 + hill(x * 3 + y, 37, 30);
				green = 110 + hill(y * 5 - x % 211, 53, 40);
				blue = 40;
			}
			pixel[0] = grained(red);
			pixel[1] = grained(green);
			pixel[2] = grained(blue);
		}
	}
}

static void
write_ppm(FILE *file, const uint8_t *pixels, size_t bytes)
{
	fprintf(file, "P6\n%d %d\n255\n", WIDTH, HEIGHT);
	fwrite(pixels, 1, bytes, file);
}

/* Little-endian output, independent of the byte order of the machine. */
static void
put16(FILE *file, uint32_t value)
{
	fputc((int)(value & 255), file);
	fputc((int)(value >> 8 & 255), file);
}

static void
put32(FILE *file, uint32_t value)
{
	put16(file, value & 65535);
	put16(file, value >> 16);
}

/* A directory entry with one value. */
static void
put_entry(FILE *file, uint32_t tag, uint32_t type, uint32_t count, uint32_t value)
{
	put16(file, tag);
	put16(file, type);
	put32(file, count);
	put32(file, value);
}

/* Baseline TIFF 6.0: header, directory, bits per sample, then the pixels as one strip. */
static void
write_tiff(FILE *file, const uint8_t *pixels, size_t bytes)
{
	enum { SHORT = 3, LONG = 4, N_ENTRIES = 10 };
	const uint32_t bits_at = 8 + 2 + N_ENTRIES * 12 + 4;
	const uint32_t pixels_at = bits_at + 6;

	fputs("II", file);
	put16(file, 42);
	put32(file, 8);
	put16(file, N_ENTRIES);
	put_entry(file, 256, LONG, 1, WIDTH);
	put_entry(file, 257, LONG, 1, HEIGHT);
	put_entry(file, 258, SHORT, 3, bits_at);
	put_entry(file, 259, SHORT, 1, 1);	/* not compressed */
	put_entry(file, 262, SHORT, 1, 2);	/* RGB */
	put_entry(file, 273, LONG, 1, pixels_at);
	put_entry(file, 277, SHORT, 1, 3);	/* samples per pixel */
	put_entry(file, 278, LONG, 1, HEIGHT);	/* rows in the strip */
	put_entry(file, 279, LONG, 1, (uint32_t)bytes);
	put_entry(file, 284, SHORT, 1, 1);	/* chunky: the samples of a pixel are contiguous */
	put32(file, 0);
	put16(file, 8);
	put16(file, 8);
	put16(file, 8);
	fwrite(pixels, 1, bytes, file);
}

static void
make_pictures(const char *directory)
{
	const size_t bytes = (size_t)WIDTH * HEIGHT * 3;
	uint8_t *pixels = malloc(bytes);
	FILE *file;

	if (!pixels)
		die("a picture");
	draw(pixels);
	file = begin(directory, "picture.ppm");
	write_ppm(file, pixels, bytes);
	end(file, directory, "picture.ppm");
	file = begin(directory, "picture.tif");
	write_tiff(file, pixels, bytes);
	end(file, directory, "picture.tif");
	free(pixels);
}

/* A word of 2 to 12 letters; vowels and consonants usually alternate. */
static void
make_word(char word[WORD_MAX + 1])
{
	static const char consonants[] = "tnrshdlcmfpgbvk", vowels[] = "eaoiu";
	uint32_t length = 2 + below(5) + below(WORD_MAX - 5);
	int vowel = below(2) == 0;

	for (uint32_t i = 0; i < length; i++) {
		word[i] = vowel ? vowels[below(5)] : consonants[below(15)];
		vowel = below(8) == 0 ? vowel : !vowel;
	}
	word[length] = '\0';
}

/*
 * Index of the next word. The distribution is skewed as in natural language: few words are frequent,
 * most are rare. The minimum of three draws is near 0 about three times as often as a single draw.
 */
static uint32_t
word_idx(void)
{
	uint32_t least = N_WORDS;

	for (int i = 0; i < 3; i++) {
		uint32_t drawn = below(1 + below(N_WORDS));

		least = drawn < least ? drawn : least;
	}
	return least;
}

static void
make_text(const char *directory)
{
	static char words[N_WORDS][WORD_MAX + 1];
	FILE *file = begin(directory, "words.txt");
	size_t written = 0, column = 0;

	for (int i = 0; i < N_WORDS; i++)
		make_word(words[i]);
	while (written < TEXT_BYTES) {
		const char *word = words[word_idx()];
		size_t length = strlen(word);
		char gap = ' ';

		column += length + 1;
		if (column > LINE_WIDTH) {
			gap = '\n';
			column = 0;
		}
		fputs(word, file);
		fputc(gap, file);
		written += length + 1;
	}
	fputc('\n', file);
	end(file, directory, "words.txt");
}

int
main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: make-input DIR\n", stderr);
		return 2;
	}
	make_pictures(argv[1]);
	make_text(argv[1]);
	return 0;
}
