-- The rows that stand in the table before Debezium looks at it: they arrive as a snapshot.
create table products (
  product_id bigint primary key,
  description text,
  price numeric(10,2) not null
);
alter table products replica identity full;
create publication products_pub for table products;
insert into products values
  (1,  'Vacuum flask, stainless steel, keeps a litre of tea or coffee hot for a whole day', 29.90),
  (2,  'Ultralight two-person tent for hiking in wind and rain', 249.00),
  (3,  'Down sleeping bag, comfortable at minus ten degrees', 199.00),
  (4,  'Head torch with a red light, rechargeable', 39.50),
  (5,  'Cast iron pan for steaks and pancakes', 45.00),
  (6,  'Chef''s knife of Japanese steel with a walnut handle', 120.00),
  (7,  'Burr grinder for espresso beans', 89.00),
  (8,  'Noise-cancelling headphones for flights and open offices', 279.00),
  (9,  'Mechanical keyboard with quiet switches', 139.00),
  (10, 'Desk lamp with a heavy base', 34.00),
  (11, 'Plush penguin for small children', 19.00),
  (12, 'Wooden railway with bridges and a tunnel', 59.00),
  (13, 'Telescope for beginners: the moons of Jupiter from the balcony', 189.00),
  (14, 'Board game about settling distant planets', 44.00),
  (15, 'Running shoes with a soft sole for long distances', 129.00),
  (16, 'Rain jacket, breathable, packs into its own pocket', 99.00);
