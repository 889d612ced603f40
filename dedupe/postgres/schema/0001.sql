CREATE TABLE {s}.meta (
  id int PRIMARY KEY CHECK (id = 1),
  width bigint NOT NULL
);
CREATE TABLE {s}.gateways (
  name text PRIMARY KEY,
  writer bigint NOT NULL UNIQUE,
  epoch bigint NOT NULL,
  mark bigint NOT NULL,
  first_ref uuid,
  last_ref uuid,
  batches bigint NOT NULL,
  accepted bigint NOT NULL,
  acts bigint NOT NULL,
  heartbeat bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TABLE {s}.partitions (
  lo bigint PRIMARY KEY,
  hi bigint NOT NULL,
  bodies boolean NOT NULL
);
CREATE TABLE {s}.claims (
  key bytea PRIMARY KEY,
  ref uuid NOT NULL,
  hash bytea NOT NULL,
  span bigint NOT NULL,
  expires bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX claims_expires ON {s}.claims (expires);
CREATE TABLE {s}.events (
  ref uuid PRIMARY KEY,
  source text NOT NULL,
  id bytea NOT NULL,
  batch bigint NOT NULL,
  request uuid NOT NULL,
  kept bigint NOT NULL,
  keep_body bigint NOT NULL,
  keep_meta bigint NOT NULL,
  keep_audit bigint NOT NULL,
  once boolean NOT NULL,
  spent boolean NOT NULL,
  repeats bigint NOT NULL,
  conflicts bigint NOT NULL,
  last_at bigint NOT NULL,
  rec bytea NOT NULL
) PARTITION BY RANGE (ref);
CREATE INDEX events_id ON {s}.events (id, ref) WHERE id <> '';
CREATE INDEX events_once ON {s}.events (request) WHERE once AND NOT spent;
CREATE INDEX events_audit ON {s}.events (ref) WHERE keep_audit < keep_meta;
CREATE TABLE {s}.bodies (
  ref uuid PRIMARY KEY,
  until bigint NOT NULL,
  data bytea NOT NULL
) PARTITION BY RANGE (ref);
ALTER TABLE {s}.bodies ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE {s}.closed (
  ref uuid NOT NULL,
  target text NOT NULL,
  gen int NOT NULL,
  state smallint NOT NULL,
  new_key boolean NOT NULL,
  attempts bigint NOT NULL,
  opened bigint NOT NULL,
  updated bigint NOT NULL,
  last_status int NOT NULL,
  last_error text NOT NULL,
  PRIMARY KEY (ref, target)
) PARTITION BY RANGE (ref);
CREATE INDEX closed_dead ON {s}.closed (target, ref) WHERE state = 3;
CREATE SEQUENCE {s}.attempt_seq CACHE 1;
CREATE TABLE {s}.attempts (
  ref uuid NOT NULL,
  seq bigint NOT NULL,
  writer bigint NOT NULL,
  batch bigint NOT NULL,
  target text NOT NULL,
  rec bytea NOT NULL,
  PRIMARY KEY (ref, seq)
) PARTITION BY RANGE (ref);
CREATE TABLE {s}.pending (
  ref uuid NOT NULL,
  target text NOT NULL,
  request uuid NOT NULL,
  gen int NOT NULL,
  new_key boolean NOT NULL,
  attempts bigint NOT NULL,
  opened bigint NOT NULL,
  updated bigint NOT NULL,
  due bigint NOT NULL,
  next_at bigint NOT NULL,
  last_status int NOT NULL,
  last_error text NOT NULL,
  size bigint NOT NULL,
  once boolean NOT NULL,
  ord bigint NOT NULL,
  lane bigint NOT NULL,
  pos bigint NOT NULL,
  token bigint NOT NULL,
  owner bigint NOT NULL,
  lease_until bigint NOT NULL,
  begun bigint NOT NULL,
  begun_token bigint NOT NULL,
  begun_by bigint NOT NULL,
  PRIMARY KEY (ref, target)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pending_due ON {s}.pending (target, next_at, ref);
CREATE INDEX pending_lane ON {s}.pending (target, lane, pos) WHERE lane <> 0;
CREATE INDEX pending_request ON {s}.pending (request);
CREATE TABLE {s}.lanes (
  target text NOT NULL,
  lane bigint NOT NULL,
  pos bigint NOT NULL,
  PRIMARY KEY (target, lane)
) WITH (fillfactor = 70);
CREATE TABLE {s}.blocks (
  target text NOT NULL,
  lane bigint NOT NULL,
  ref uuid NOT NULL,
  PRIMARY KEY (target, lane, ref)
);
CREATE INDEX blocks_ref ON {s}.blocks (ref);
CREATE TABLE {s}.batches (
  writer bigint NOT NULL,
  first_act bigint NOT NULL,
  acts bigint NOT NULL,
  at bigint NOT NULL,
  lo uuid,
  hi uuid,
  events int NOT NULL,
  keep_until bigint NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (writer, first_act)
);
CREATE INDEX batches_lo ON {s}.batches (writer, lo) WHERE lo IS NOT NULL;
CREATE TABLE {s}.notes (
  kind bytea NOT NULL,
  name bytea NOT NULL,
  version bigint NOT NULL,
  updated bigint NOT NULL,
  value bytea NOT NULL,
  PRIMARY KEY (kind, name)
) WITH (fillfactor = 70);
CREATE TABLE {s}.sync_keys (
  key bytea PRIMARY KEY,
  state smallint NOT NULL,
  token bigint NOT NULL,
  until bigint NOT NULL,
  claimed bigint NOT NULL,
  expires bigint NOT NULL,
  rec bytea NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX sync_keys_expires ON {s}.sync_keys (expires) WHERE state NOT IN (1, 4);
CREATE INDEX sync_keys_open ON {s}.sync_keys (claimed) WHERE state IN (1, 4);
CREATE TABLE {s}.sync_chunks (
  key bytea NOT NULL,
  token bigint NOT NULL,
  n int NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (key, token, n)
);
ALTER TABLE {s}.sync_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
