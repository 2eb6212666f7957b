-- Inserts 500,000 orders of 20,000 customers into an in-memory database and queries them.
-- The numbers are pseudo-random and the same in every run.
PRAGMA temp_store = MEMORY;

CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, town INTEGER);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, day INTEGER, cents INTEGER);

INSERT INTO customer
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
SELECT i, printf('customer %06d', (i * 7919) % 20011), (i * 104729) % 300 FROM n;

INSERT INTO orders
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000)
SELECT i, 1 + (i * 48271) % 20000, (i * 16807 + (i / 20000) * (i / 20000) * 37) % 1461, 100 + (i * 69621) % 99900 FROM n;

CREATE INDEX orders_by_customer ON orders (customer, day);
CREATE INDEX orders_by_day ON orders (day);
ANALYZE;

-- Total of each town in each year.
SELECT count(*), max(total) FROM (
  SELECT town, day / 365 AS year, sum(cents) AS total
  FROM orders JOIN customer ON customer.id = orders.customer
  GROUP BY town, year
);

-- Days on which the running total of a customer is between two limits.
SELECT count(*), min(day), max(day) FROM (
  SELECT customer, day, sum(cents) OVER (PARTITION BY customer ORDER BY day, id) AS so_far
  FROM orders
) WHERE so_far BETWEEN 500000 AND 510000;

-- Pairs of orders of the same customer within 30 days.
SELECT count(*) FROM orders AS a JOIN orders AS b
  ON a.customer = b.customer AND b.day BETWEEN a.day + 1 AND a.day + 30;

-- The ten largest orders of each week, with the names of the customers.
SELECT count(*), sum(cents) FROM (
  SELECT name, cents, rank() OVER (PARTITION BY day / 7 ORDER BY cents DESC, orders.id) AS place
  FROM orders JOIN customer ON customer.id = orders.customer
) WHERE place <= 10;
