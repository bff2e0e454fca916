-- Types that come with extensions which a server may lack.
CREATE EXTENSION IF NOT EXISTS postgis;
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE geometries (id int PRIMARY KEY, pt geometry(Point,4326), g geometry, gz geometry(PointZ), gg geography(Point,4326), ga geometry[]);
INSERT INTO geometries VALUES
  (1, 'SRID=4326;POINT(2.35 48.85)', 'LINESTRING(0 0,1 1)', 'POINT Z (1 2 3)', 'SRID=4326;POINT(2.35 48.85)', NULL),
  (2, 'SRID=4326;POINT(0 0)', 'SRID=3857;POLYGON((0 0,1 0,1 1,0 0))', 'POINT Z (0 0 0)', 'SRID=4326;POINT(-180 -90)', array['POINT(1 2)', NULL]::geometry[]),
  (3, 'SRID=4326;POINT EMPTY', 'GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))', NULL, NULL, '{}'),
  (4, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE vectors (id int PRIMARY KEY, v vector(3), vn vector, hv halfvec(3), sv sparsevec(5));
INSERT INTO vectors VALUES
  (1, '[1,2.5,-3]', '[0.1]', '[1,2.5,-3]', '{1:1,3:2.5}/5'),
  (2, '[0,0,0]', '[1e-38,3.4e38]', '[0,0.1,65504]', '{}/5'),
  (3, '[0.1,0.2,0.3]', '[1,2,3,4]', '[0.1,0.2,0.3]', '{5:0.1}/5'),
  (4, NULL, NULL, NULL, NULL);
ALTER TABLE geometries REPLICA IDENTITY FULL;
ALTER TABLE vectors REPLICA IDENTITY FULL;
