-- What happens while Debezium streams: each row of the tables of types comes again under a new id and goes.
DO $$
DECLARE name text;
BEGIN
  FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relreplident = 'f'
    AND relname <> 'toast_full' ORDER BY 1 LOOP
    EXECUTE format('CREATE TEMP TABLE again AS TABLE %I', name);
    UPDATE again SET id = id + 100;
    EXECUTE format('INSERT INTO %I TABLE again', name);
    EXECUTE format('DELETE FROM %I WHERE id > 100', name);
    DROP TABLE again;
  END LOOP;
END $$;
UPDATE keys SET v = 2;
DELETE FROM keys;
UPDATE toast SET title = 'b' WHERE id = 1;
INSERT INTO toast SELECT 2, 'null';
UPDATE toast SET title = 'c' WHERE id = 2;
INSERT INTO toast_full VALUES (1, 't', repeat('y', 3000));
UPDATE toast_full SET title = 'u' WHERE id = 1;
UPDATE toast_full SET id = 2 WHERE id = 1;
DELETE FROM toast_full WHERE id = 2;
INSERT INTO composite_key VALUES ('acme', 1, 10), ('acme', 2, NULL);
UPDATE composite_key SET qty = 11 WHERE sku = 1;
UPDATE composite_key SET sku = 3 WHERE sku = 2;
DELETE FROM composite_key WHERE sku = 3;
BEGIN;
INSERT INTO no_key VALUES (1, 'x');
INSERT INTO no_key VALUES (2, NULL);
COMMIT;
TRUNCATE no_key, composite_key;
SELECT pg_logical_emit_message(true, 'app', 'in a transaction');
SELECT pg_logical_emit_message(false, 'app', '\x00ff'::bytea);
SELECT pg_logical_emit_message(true, 'end', '');
