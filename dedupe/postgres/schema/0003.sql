-- What retention and searches look for, found without reading a whole table.
ALTER TABLE {s}.meta ADD COLUMN expired bigint NOT NULL DEFAULT 0;
CREATE INDEX events_ends ON {s}.events ((kept + keep_meta));
DROP INDEX {s}.events_audit;
CREATE INDEX events_audit ON {s}.events ((kept + keep_audit)) WHERE keep_audit < keep_meta;
CREATE INDEX bodies_until ON {s}.bodies (until);
DROP INDEX {s}.closed_dead;
CREATE INDEX closed_dead ON {s}.closed (ref, target) WHERE state = 3;
CREATE TABLE {s}.fields (
  hash bigint NOT NULL,
  ref uuid NOT NULL,
  PRIMARY KEY (hash, ref)
) PARTITION BY RANGE (ref);
DO $$
DECLARE p record; name text;
BEGIN
  FOR p IN SELECT lo, hi FROM {s}.partitions LOOP
    name := 'fields_p' || to_char(to_timestamp(p.lo / 1000.0) AT TIME ZONE 'UTC', 'YYYYMMDDHH24');
    EXECUTE format('CREATE TABLE {s}.%I PARTITION OF {s}.fields FOR VALUES FROM (%L) TO (%L)', name,
      rpad(lpad(to_hex(p.lo), 12, '0'), 32, '0')::uuid, rpad(lpad(to_hex(p.hi), 12, '0'), 32, '0')::uuid);
  END LOOP;
END $$;
