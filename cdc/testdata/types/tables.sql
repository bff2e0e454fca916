-- One table a family of types. A row holds the n-th value worth a look of every type in it; REPLICA IDENTITY FULL has a delete bring
-- the whole row before. Column names say their type.
CREATE EXTENSION IF NOT EXISTS citext;
CREATE EXTENSION IF NOT EXISTS hstore;
CREATE EXTENSION IF NOT EXISTS ltree;
CREATE EXTENSION IF NOT EXISTS isn;
CREATE TYPE mood AS ENUM ('sad', 'o k', 'happy,"so"');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE DOMAIN price AS numeric(10,2);
CREATE DOMAIN moment AS timestamp(3);
CREATE DOMAIN deepint AS posint;

CREATE TABLE numbers (
  id int PRIMARY KEY, i2 smallint, i4 int, i8 bigint, f4 real, f8 double precision, o oid, b boolean, d_posint posint, d_deep deepint);
INSERT INTO numbers VALUES
  (1, -32768, -2147483648, -9223372036854775808, -3.4028235e38, -1.7976931348623157e308, 0, false, 1, 1),
  (2, 32767, 2147483647, 9223372036854775807, 3.4028235e38, 1.7976931348623157e308, 4294967295, true, 2147483647, 2147483647),
  (3, 0, 0, 0, 0, 0, 1, true, 2, 3),
  (4, -1, -1, 9007199254740993, 'NaN', 'NaN', 2147483648, false, 3, 4),
  (5, 1, 1, -9007199254740993, 'Infinity', 'Infinity', 42, true, 4, 5),
  (6, 7, 8, 9, '-Infinity', '-Infinity', 43, NULL, 5, 6),
  (7, 7, 8, 9, 1e-45, 5e-324, 44, true, 6, 7),
  (8, 7, 8, 9, 0.1, 0.1, 45, true, 7, 8),
  (9, 7, 8, 9, 16777216, 123456789.12345679, 46, true, 8, 9),
  (10, 7, 8, 9, '-0', '-0', 47, true, 8, 9),
  (11, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE decimals (
  id int PRIMARY KEY, n numeric, n12_4 numeric(12,4), n5_0 numeric(5,0), n5_m2 numeric(5,-2), n3_5 numeric(3,5), n38_10 numeric(38,10),
  m money, d_price price);
INSERT INTO decimals VALUES
  (1, 0, 0, 0, 0, 0, 0, 0, 0),
  (2, 1.10, 12.5, 12345, 1234567, 0.00123, 1234567890123456789012345678.0123456789, 1234.56, 99999999.99),
  (3, -1.10, -1, -1, -1234500, -0.00999, -1234567890123456789012345678.0123456789, -0.01, -0.01),
  (4, 123456789012345678901234567890.123456789, 99999999.9999, 99999, 9999900, 0.00999, 0.0000000001, 92233720368547758.07, 1),
  (5, 0.000000000000000000000000000001, -99999999.9999, -99999, 100, 0.00001, 1, -92233720368547758.08, 0.10),
  (6, 1e40, 0.0001, 10, -100, 0.001, 10, 1, 10),
  (7, 10.1111, 128, 128, 12800, 0.00128, 255, 1.28, 1.28),
  (8, 100, -128, -128, -12800, -0.00128, -256, -1.28, -1.28),
  (9, 9007199254740993, 9007199.2547, 1, 100, 0, 9007199254740993, 90071992547409.93, 1),
  (10, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- Numbers that are none.
CREATE TABLE not_numbers (id int PRIMARY KEY, n numeric, n12_4 numeric(12,4));
INSERT INTO not_numbers VALUES (1, 'NaN', 'NaN'), (2, 'Infinity', 0), (3, '-Infinity', 0);

CREATE TABLE times (
  id int PRIMARY KEY, d date, t0 time(0), t1 time(1), t3 time(3), t4 time(4), t6 time, ttz timetz, ttz0 timetz(0), ttz3 timetz(3),
  ts0 timestamp(0), ts1 timestamp(1), ts3 timestamp(3), ts4 timestamp(4), ts6 timestamp, tstz timestamptz, tstz0 timestamptz(0),
  tstz3 timestamptz(3), d_moment moment);
INSERT INTO times VALUES
  (1, '2026-02-28', '23:59:59', '12:34:56.7', '12:34:56.789', '12:34:56.7891', '12:34:56.789123', '11:51:30.123789+02', '11:51:30+02',
   '11:51:30.123-05:30', '2026-02-28 10:00:00', '2026-02-28 10:00:00.1', '2026-02-28 10:00:00.123', '2026-02-28 10:00:00.1234',
   '2026-02-28 10:00:00.123456', '2026-02-28 10:00:00.123456+03', '2026-02-28 10:00:00+03', '2026-02-28 10:00:00.123+03',
   '2026-02-28 10:00:00.123'),
  (2, '1970-01-01', '00:00:00', '00:00:00', '00:00:00', '00:00:00', '00:00:00', '00:00:00+00', '00:00:00+00', '00:00:00+00',
   '1970-01-01', '1970-01-01', '1970-01-01', '1970-01-01', '1970-01-01', '1970-01-01 00:00:00+00', '1970-01-01 00:00:00+00',
   '1970-01-01 00:00:00+00', '1970-01-01'),
  (3, '1969-12-31', '00:00:01', '00:00:00.1', '00:00:00.001', '00:00:00.0001', '00:00:00.000001', '00:00:00.000001+00', '23:59:59+15:59',
   '23:59:59.999-15:59', '1969-12-31 23:59:59', '1969-12-31 23:59:59.9', '1969-12-31 23:59:59.999', '1969-12-31 23:59:59.9999',
   '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999999+00', '1969-12-31 23:59:59+00', '1969-12-31 23:59:59.999+00',
   '1969-12-31 23:59:59.999'),
  (4, '1600-02-29', '12:00:00', '12:00:00.5', '12:00:00.500', '12:00:00.5000', '12:00:00.500000', '12:00:00.5+01', '12:00:00+01',
   '12:00:00.5+01', '1677-09-22', '1677-09-22', '1677-09-22', '1677-09-22', '1677-09-22 00:00:00.000001', '1677-09-22 00:00:00.000001+00',
   '1677-09-22 00:00:00+00', '1677-09-22 00:00:00.001+00', '1677-09-22 00:00:00.001'),
  (5, '2262-04-11', '01:02:03', '01:02:03.4', '01:02:03.045', '01:02:03.0456', '01:02:03.045678', '23:30:00-01', '23:30:00-01',
   '23:30:00-01', '2262-04-11', '2262-04-11', '2262-04-11', '2262-04-11', '2262-04-11 23:47:16.854775', '2262-04-11 23:47:16.854775+00',
   '2262-04-11 00:00:00+00', '2262-04-11 00:00:00.001+00', '2262-04-11 00:00:00.001'),
  (6, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- Times at and beyond the edges of what other systems know.
CREATE TABLE edge_times (
  id int PRIMARY KEY, d date, t0 time(0), t3 time(3), t6 time, ttz timetz, ts0 timestamp(0), ts3 timestamp(3), ts6 timestamp, tstz timestamptz);
INSERT INTO edge_times VALUES
  (1, 'infinity', '24:00:00', '24:00:00', '24:00:00', '23:59:59.999999+00', 'infinity', 'infinity', 'infinity', 'infinity'),
  (2, '-infinity', '23:59:59.9', '23:59:59.9999', '23:59:59.9999999', '00:00:00-15:59', '-infinity', '-infinity', '-infinity', '-infinity'),
  (3, '4713-01-01 BC', '00:00:00', '00:00:00', '00:00:00', '00:00:00+15:59', '4713-01-01 BC', '4713-01-01 00:00:00.001 BC',
   '4713-01-01 00:00:00.000001 BC', '4713-01-01 00:00:00.000001+00 BC'),
  (4, '0001-12-31 BC', '12:00:00', '12:00:00', '12:00:00', '12:00:00.1+05:30', '0001-12-31 23:59:59 BC', '0001-12-31 23:59:59.999 BC',
   '0001-12-31 23:59:59.999999 BC', '0001-12-31 23:59:59.999999+00 BC'),
  (5, '0001-01-01', '12:00:00', '12:00:00', '12:00:00', '12:00:00.12+05:30', '0001-01-01', '0001-01-01', '0001-01-01', '0001-01-01 00:00:00+00'),
  (6, '1582-10-10', '12:00:00', '12:00:00', '12:00:00', '12:00:00.123+05:30', '1582-10-10 12:00:00', '1582-10-10 12:00:00.123',
   '1582-10-10 12:00:00.123456', '1582-10-10 12:00:00.123456+00'),
  (7, '9999-12-31', '12:00:00', '12:00:00', '12:00:00', '12:00:00.1234+05:30', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999',
   '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999+00'),
  (8, '10000-01-01', '12:00:00', '12:00:00', '12:00:00', '12:00:00.12345+05:30', '10000-01-01', '10000-01-01 00:00:00.001',
   '10000-01-01 00:00:00.000001', '10000-01-01 00:00:00.000001+00'),
  (9, '21016-11-04', '12:00:00', '12:00:00', '12:00:00', '12:00:00+00', '21016-11-04 06:51:30', '21016-11-04 06:51:30.123',
   '21016-11-04 06:51:30.123456', '21016-11-04 06:51:30.123456+00'),
  (10, '5874897-12-31', '12:00:00', '12:00:00', '12:00:00', '12:00:00+00', '294276-12-31 23:59:59', '294276-12-31 23:59:59.999',
   '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999+00');

CREATE TABLE intervals (id int PRIMARY KEY, iv interval, iv0 interval(0), iv_ym interval year to month, iv_ds interval day to second(3));
INSERT INTO intervals VALUES
  (1, '1 year 2 months 3 days 04:05:06.78', '1 day', '1 year 2 months', '3 days 04:05:06.789'),
  (2, '0', '0', '0', '0'),
  (3, '-1 mons', '-1 day', '-1 mons', '-00:00:00.001'),
  (4, '-1 year -2 mons +3 days -04:05:06.000001', '-04:05:06', '-1 year -2 mons', '-3 days +04:05:06'),
  (5, '00:00:00.000001', '00:00:01', '1 mon', '100:00:00'),
  (6, '400 days 25:00:00', '400 days 25:00:00', '100 years', '400 days 25:00:00'),
  (7, '-00:00:00.5', '1000 years', '0', '1 day -00:00:00.5'),
  (8, NULL, NULL, NULL, NULL);

CREATE TABLE binaries (
  id int PRIMARY KEY, by bytea, bit1 bit(1), bit3 bit(3), bit8 bit(8), bit11 bit(11), bit64 bit(64), vb varbit, vb20 varbit(20), bit_1 bit);
INSERT INTO binaries VALUES
  (1, '\xdeadbeef', '1', '101', '10000001', '00000000101', repeat('1', 64)::bit(64), '1010', '11110000111100001111', '1'),
  (2, '\x', '0', '000', '00000000', '00000000000', repeat('0', 64)::bit(64), '', '', '0'),
  (3, '\x00', '1', '100', '11111111', '10000000000', ('1' || repeat('0', 63))::bit(64), '0', '00000000000000000000', '1'),
  (4, (SELECT decode(string_agg(lpad(to_hex(i), 2, '0'), ''), 'hex') FROM generate_series(0, 255) i), '0', '001', '00000001',
   '00000000001', (repeat('0', 63) || '1')::bit(64), repeat('10', 50)::varbit, '00001', '0'),
  (5, '\xfbff', '1', '110', '01111111', '01111111111', repeat('01', 32)::bit(64), repeat('1', 65)::varbit, '1', '1'),
  (6, convert_to('plain text', 'UTF8'), '1', '110', '01111111', '01111111111', repeat('01', 32)::bit(64), '1', '1', '1'),
  (7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE texts (
  id int PRIMARY KEY, c char(5), vc varchar(20), t text, ci citext, n name, ch "char", bp bpchar, x xml, u uuid, e mood, lt ltree, tv tsvector,
  isbn isbn);
INSERT INTO texts VALUES
  (1, 'ab', 'var', E'h\u00e9llo \u65e5\u672c \U0001F600', 'CaSe', 'name', 'q', 'bp  ', '<r a="1">x</r>', '7f1e4c1a-4f5e-4c57-9a57-0d2f7a5b0c11',
   'sad', 'top.sci', 'fat:1 cat:2A', '978-0-393-04002-9'),
  (2, '', '', '', '', '', '', '', '', '00000000-0000-0000-0000-000000000000', 'o k', '', '', '978-0-393-04002-9'),
  (3, '     ', ' ', E'line\nbreak\ttab \\ "quote" \u0001 </script> \u2028', E'\u00c4\u00d6', E'\u00e9', 'x', ' ', '<!-- c --><r>&lt;&amp;</r>',
   'ffffffff-ffff-ffff-ffff-ffffffffffff', 'happy,"so"', 'a_b.c.d', '''it''''s'':1 ''a b'':2', '978-0-393-04002-9'),
  (4, '12345', 'AehI', '123', 'NaN', 'null', '1', 'true', '<a/>', '7f1e4c1a-4f5e-4c57-9a57-0d2f7a5b0c11', 'sad', 'x', 'x', '978-0-393-04002-9'),
  (5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE documents (id int PRIMARY KEY, j json, jb jsonb, hs hstore);
INSERT INTO documents VALUES
  (1, '{"a": [1, 2.50, 1e3], "b": null, "a": 2}', '{"b": null, "a": 9007199254740993, "c": [1.10, true, "x"]}', 'a=>1, b=>NULL'),
  (2, '[]', '{}', ''),
  (3, '"text"', '"t\u00e9xt \ud83d\ude00"', '"k w"=>"v \"w\" \\ x", "\""=>""'),
  (4, '12345678901234567890.123456789', '12345678901234567890.123456789', E'h\u00e9=>\u65e5'),
  (5, 'null', 'null', 'NULL=>"NULL"'),
  (6, ' {"z" : 1,"y":{"x":[[]]}} ', 'true', 'a=>1, c=>2, b=>3'),
  (7, NULL, NULL, NULL);

CREATE TABLE networks (id int PRIMARY KEY, ip inet, cd cidr, mac macaddr, mac8 macaddr8);
INSERT INTO networks VALUES
  (1, '192.168.0.1/24', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05'),
  (2, '192.168.0.1', '192.168.100.128/25', '00:00:00:00:00:00', '00:00:00:00:00:00:00:00'),
  (3, '2001:db8::1/64', '2001:db8::/32', 'ff:ff:ff:ff:ff:ff', 'ff:ff:ff:ff:ff:ff:ff:ff'),
  (4, '::ffff:1.2.3.4', '::/0', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05'),
  (5, '0.0.0.0/0', '0.0.0.0/0', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05'),
  (6, NULL, NULL, NULL, NULL);

CREATE TABLE ranges (
  id int PRIMARY KEY, i4r int4range, i8r int8range, nr numrange, tsr tsrange, tstzr tstzrange, dr daterange,
  i4m int4multirange, nm nummultirange, tstzm tstzmultirange);
INSERT INTO ranges VALUES
  (1, '[1,5)', '[1,9223372036854775807)', '(1.10,2.2]', '[2026-01-01,2026-02-01)', '[2026-01-01 00:00:00.5+00,2026-02-01 00:00:00+00)',
   '[2026-01-01,2026-02-01)', '{[1,5),[7,9)}', '{[1.10,2.2]}', '{[2026-01-01 00:00:00+00,2026-02-01 00:00:00+00)}'),
  (2, 'empty', 'empty', 'empty', 'empty', 'empty', 'empty', '{}', '{}', '{}'),
  (3, '(,)', '(,5)', '[5,)', '(,infinity]', '[-infinity,)', '[0044-03-15 BC,10000-01-01)', '{(,)}', '{(,1),(2,)}', '{(,)}'),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE shapes (id int PRIMARY KEY, p point, li line, ls lseg, bx box, pa path, po polygon, ci circle);
INSERT INTO shapes VALUES
  (1, '(1.5,-2)', '{1,2,3}', '[(0,0),(1,1)]', '(1,1),(0,0)', '((0,0),(1,1))', '((0,0),(1,1),(1,0))', '<(0,0),1>'),
  (2, '(0,0)', '{1,0,0}', '[(0,0),(0,0)]', '(0,0),(0,0)', '[(0,0)]', '((0,0))', '<(0,0),0>'),
  (3, '(1e300,0.1)', NULL, NULL, NULL, NULL, NULL, NULL),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE others (id int PRIMARY KEY, co pair, tq tsquery, ls pg_lsn, xi xid8, jp jsonpath, rc regclass);
INSERT INTO others VALUES
  (1, '(1,"a b")', 'fat & cat', '16/B374D848', '18446744073709551615', '$.a[*]', 'pg_class'),
  (2, '(,)', '', '0/0', '0', '$', 'pg_type'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE arrays (
  id int PRIMARY KEY, i2a smallint[], i4a int[], i8a bigint[], f4a real[], f8a float8[], oa oid[], ba boolean[], na numeric[], n6_2a numeric(6,2)[],
  ta text[], vca varchar(20)[], ca char(3)[], cia citext[], ua uuid[], ja json[], jba jsonb[], ipa inet[], cda cidr[], maca macaddr[], mac8a macaddr8[],
  ea mood[], bya bytea[], hsa hstore[], lta ltree[]);
INSERT INTO arrays VALUES
  (1, '{-32768,NULL,32767}', '{1,NULL,-2147483648}', '{9007199254740993,NULL}', '{1.5,NULL,NaN,Infinity,-Infinity,0.1}', '{1.5,NULL,NaN,Infinity,-Infinity,0.1}',
   '{1,NULL,4294967295}', '{t,f,NULL}', '{1.10,NULL,123456789012345678901234567890.5}', '{1.10,NULL,-9999.99}', '{a,NULL,"b,c","","null","q\"\\z"}', '{a,NULL,""}',
   '{a,NULL,abc}', '{Aa,NULL}', '{7f1e4c1a-4f5e-4c57-9a57-0d2f7a5b0c11,NULL}', array['{"k": 1}', NULL, '[1.0]']::json[], array['{"k": 1}', NULL, '"x"']::jsonb[],
   '{10.0.0.1/8,NULL,::1}', '{10.0.0.0/8,NULL}', '{08:00:2b:01:02:03,NULL}', '{08:00:2b:01:02:03:04:05,NULL}', '{sad,"o k","happy,\"so\""}',
   array['\x00ff', NULL, '\x']::bytea[], array['a=>1', NULL, '']::hstore[], '{a.b,c}'),
  (2, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
  (3, '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}',
   '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}'),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE time_arrays (
  id int PRIMARY KEY, da date[], t6a time[], ttza timetz[], ts3a timestamp(3)[], ts6a timestamp[], tstza timestamptz[], tstzra tstzrange[], i4ra int4range[],
  nra numrange[], dra daterange[]);
INSERT INTO time_arrays VALUES
  (1, '{2026-01-01,NULL,1969-12-31}', '{12:34:56.789123,NULL,24:00:00}', '{12:34:56.789123+02,NULL}', '{"2026-01-01 00:00:00.123",NULL}',
   '{"2026-01-01 00:00:00.123456",NULL}', '{"2026-01-01 00:00:00.123456+03",NULL}', '{"[\"2026-01-01 00:00:00+00\",\"2026-02-01 00:00:00+00\")",NULL}', '{"[1,5)",NULL,empty}',
   '{"[1.1,5)",NULL}', '{"[2026-01-01,2026-02-01)",NULL}'),
  (2, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- Arrays that Debezium 3.6 does not send, or sends in its own way.
CREATE TABLE odd_arrays (
  id int PRIMARY KEY, iva interval[], ma money[], xa xml[], pa point[], bita bit(3)[], i4aa int[][], bxa box[], taa text[][]);
INSERT INTO odd_arrays VALUES
  (1, '{1 day,NULL}', '{1.5,NULL}', array['<a/>', NULL]::xml[], '{"(1,2)",NULL}', '{101,NULL}', '{{1,2},{3,4}}', '{(1,1),(0,0)}', '{{a,b},{c,NULL}}'),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- Keys of more than one type.
CREATE TABLE keys (n numeric(6,2), d date, ts timestamp, tstz timestamptz, u uuid, i8 bigint, t text, v int, PRIMARY KEY (n, d, ts, tstz, u, i8, t));
INSERT INTO keys VALUES
  (12.50, '2026-02-28', '2026-02-28 10:00:00.123456', '2026-02-28 10:00:00.123456+03', '7f1e4c1a-4f5e-4c57-9a57-0d2f7a5b0c11', 9007199254740993, 'k "1"', 1);

-- What story.sql changes. Every column of toast is long enough to be stored apart, so that an update of id 1 does not log it.
CREATE TABLE toast (
  id int PRIMARY KEY, title text, t text, vc varchar(5000), ci citext, bp bpchar, x xml, by bytea, j json, jb jsonb, hs hstore, vb varbit, ta text[],
  vca varchar(9)[], i4a int[], i2a smallint[], i8a bigint[], f8a float8[], na numeric[], ba boolean[], ua uuid[], da date[], ts6a timestamp[],
  tstza timestamptz[], jba jsonb[], n numeric, tv tsvector);
DO $$
DECLARE name text;
BEGIN
  FOR name IN SELECT attname FROM pg_attribute WHERE attrelid = 'toast'::regclass AND attnum > 2 LOOP
    EXECUTE format('ALTER TABLE toast ALTER %I SET STORAGE external', name);
  END LOOP;
END $$;
INSERT INTO toast SELECT i, 'a', s, s, s, s, ('<a>' || s || '</a>')::xml, convert_to(s, 'UTF8'), to_json(s), jsonb_build_array(s), hstore('k', s),
  repeat('10', 10000)::varbit, ARRAY[s], array_fill('x'::varchar, ARRAY[300]), array_fill(7, ARRAY[600]), array_fill(7, ARRAY[1200]),
  array_fill(7, ARRAY[300]), array_fill(0.5, ARRAY[300]), array_fill(1.5, ARRAY[300]), array_fill(true, ARRAY[2400]),
  array_fill('7f1e4c1a-4f5e-4c57-9a57-0d2f7a5b0c11'::uuid, ARRAY[150]), array_fill('2026-01-01'::date, ARRAY[600]),
  array_fill('2026-01-01'::timestamp, ARRAY[300]), array_fill('2026-01-01 00:00:00+00'::timestamptz, ARRAY[300]),
  ARRAY[jsonb_build_array(s)], repeat('1234567890', 500)::numeric, (SELECT string_agg('w' || w, ' ') FROM generate_series(1, 400) w)::tsvector
FROM generate_series(1, 1) i, repeat('x', 2400) s;
CREATE TABLE toast_full (id int PRIMARY KEY, title text, body text);
ALTER TABLE toast_full REPLICA IDENTITY FULL, ALTER body SET STORAGE external;
CREATE TABLE composite_key (tenant text, sku int, qty int DEFAULT 5, PRIMARY KEY (tenant, sku));
CREATE TABLE no_key (a int, b text);

DO $$
DECLARE name text;
BEGIN
  FOR name IN SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum = 1 AND attname = 'id'
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'toast' LOOP
    EXECUTE format('ALTER TABLE %I REPLICA IDENTITY FULL', name);
  END LOOP;
END $$;
