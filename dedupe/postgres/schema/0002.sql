CREATE TABLE {s}.fleet (
  name text NOT NULL,
  epoch bigint NOT NULL,
  writer bigint NOT NULL,
  since bigint NOT NULL,
  beat bigint NOT NULL,
  share double precision NOT NULL,
  config text NOT NULL,
  version text NOT NULL,
  PRIMARY KEY (name, epoch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
