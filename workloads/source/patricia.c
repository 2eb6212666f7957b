/*
 * A Patricia trie of IPv4 addresses, as in a routing table: each address is inserted once and looked up
 * often. A new implementation of the task of the cBench program patricia.
 *
 *	patricia [ADDRESSES [LOOKUPS]]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
	uint32_t key;
	int bit;		/* index of the tested bit: 0 is the most significant, -1 marks the head */
	struct node *side[2];
	void *route;
};

static struct node *head;

static int
bit_of(uint32_t key, int bit)
{
	return bit < 0 ? 0 : key >> (31 - bit) & 1;
}

static struct node *
find(uint32_t key)
{
	struct node *at = head->side[0], *up = head;

	while (up->bit < at->bit) {
		up = at;
		at = at->side[bit_of(key, at->bit)];
	}
	return at;
}

static struct node *
make(uint32_t key, int bit)
{
	struct node *node = malloc(sizeof(*node));

	if (!node || !(node->route = malloc(32)))
		exit(1);
	node->key = key;
	node->bit = bit;
	node->side[0] = node->side[1] = node;
	return node;
}

static void
insert(uint32_t key)
{
	struct node *near = find(key), *up = head, *at = head->side[0], *node;
	int bit = 0;

	if (near->key == key)
		return;
	while (bit_of(near->key, bit) == bit_of(key, bit))
		bit++;
	while (up->bit < at->bit && at->bit < bit) {
		up = at;
		at = at->side[bit_of(key, at->bit)];
	}
	node = make(key, bit);
	node->side[!bit_of(key, bit)] = at;
	up->side[up == head ? 0 : bit_of(key, up->bit)] = node;
}

int
main(int argc, char **argv)
{
	long addresses = argc > 1 ? atol(argv[1]) : 30000;
	long lookups = argc > 2 ? atol(argv[2]) : 1000000, found = 0;
	uint32_t state = 1;

	head = make(0, -1);
	for (long i = 0; i < addresses; i++) {
		state = state * 1664525u + 1013904223u;
		insert(state);
	}
	state = 1;
	for (long i = 0; i < lookups; i++) {
		if (i % addresses == 0)
			state = 1;
		state = state * 1664525u + 1013904223u;
		found += find(state)->key == state;
	}
	printf("%ld\n", found);
	return 0;
}
