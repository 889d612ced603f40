-- Not beside running gateways.
-- What events are found by over all days, and the dead letters: in partitions that
-- span many days, so that a search looks into few tables.
CREATE TABLE {s}.wide (
  lo bigint PRIMARY KEY,
  hi bigint NOT NULL
);
CREATE TABLE {s}.terms (
  hash bigint NOT NULL,
  ref uuid NOT NULL,
  PRIMARY KEY (hash, ref)
) PARTITION BY RANGE (ref);
CREATE TABLE {s}.dead (
  ref uuid NOT NULL,
  target text NOT NULL,
  PRIMARY KEY (target, ref)
) PARTITION BY RANGE (ref);
CREATE INDEX dead_ref ON {s}.dead (ref);
INSERT INTO {s}.wide SELECT DISTINCT p.lo / (16 * m.width) * (16 * m.width), p.lo / (16 * m.width) * (16 * m.width) + 16 * m.width
  FROM {s}.partitions p, {s}.meta m;
DO $$
DECLARE p record; t text;
BEGIN
  FOR p IN SELECT lo, hi FROM {s}.wide LOOP
    FOREACH t IN ARRAY ARRAY['terms', 'dead'] LOOP
      EXECUTE format('CREATE TABLE {s}.%I PARTITION OF {s}.%I FOR VALUES FROM (%L) TO (%L)',
        t || '_p' || to_char(to_timestamp(p.lo / 1000.0) AT TIME ZONE 'UTC', 'YYYYMMDDHH24'), t,
        rpad(lpad(to_hex(p.lo), 12, '0'), 32, '0')::uuid, rpad(lpad(to_hex(p.hi), 12, '0'), 32, '0')::uuid);
    END LOOP;
  END LOOP;
END $$;
INSERT INTO {s}.terms SELECT hash, ref FROM {s}.fields;
INSERT INTO {s}.terms SELECT ('x' || encode(substr(sha256('\x00'::bytea || id), 1, 8), 'hex'))::bit(64)::bigint, ref FROM {s}.events WHERE id <> ''
  ON CONFLICT DO NOTHING;
INSERT INTO {s}.dead SELECT ref, target FROM {s}.closed WHERE state = 3;
DROP TABLE {s}.fields;
DROP INDEX {s}.events_id;
DROP INDEX {s}.closed_dead;
