package gateway

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// envOf is an environment of these variables alone.
func envOf(kv ...string) Env {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return Env{Lookup: func(name string) (string, bool) { v, ok := m[name]; return v, ok }}
}

// stripe is a source without faults, and its target.
const stripe = `[[source]]
name = "stripe"
provider = "stripe"
secrets = ["${env:SECRET}"]
targets = ["billing"]
[[target]]
name = "billing"
url = "http://127.0.0.1:9000/"
[retention]
body = "60d"
`

func lines(fs Faults) string {
	var b strings.Builder
	for _, f := range fs {
		b.WriteString(strings.TrimPrefix(f.String(), "c.toml:") + "\n")
	}
	return b.String()
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, toml, want string
	}{
		{"empty file", "", ""},
		{"without faults", stripe, ""},
		{"not TOML", "listen = \n", `1:10: not TOML: toml: unexpected character U+000A at start of value; nothing else was looked at`},
		{"key twice", "listen = \":1\"\nlisten = \":2\"\n", `2:1: not TOML: toml: key listen is already defined; nothing else was looked at`},
		{"unknown keys, all at once", "lisen = \":1\"\n[admin]\nx = 1\n[stor]\npath = \"p\"\n", `
1:1: lisen: unknown key "lisen"; did you mean "listen"?
3:1: admin.x: unknown key "x"; known here: listen, token_file, hosts, token
4:2: stor: unknown key "stor"; did you mean "store"?`},
		{"wrong types, all at once", "listen = 1\ndrain = 20\n[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = \"x\"\nallow_short_window = 1\nmax_elements = 99999999999\n", `
1:10: listen: is an integer; want a string
2:9: drain: is an integer; want a string
6:11: source[0].targets: is a string; want an array
7:22: source[0].allow_short_window: is an integer; want true or false
8:16: source[0].max_elements: 99999999999 is too large`},
		{"providers", acmeFaults, `
2:8: provider[0].name: there is a built-in provider "stripe"; choose another name
5:11: provider[1].retries: "1 day" is not valid; want a duration such as "30s", "72h" or "30d"
6:1: provider[1].methods: method "post": want capitals; "onceward providers show NAME" prints built-in ones in the same terms
7:9: provider[1].no_id: no_id "never": want body-hash, deliver or refuse; "onceward providers show NAME" prints built-in ones in the same terms
8:14: provider[1].body_limit: -1 is not valid; want a size such as "512KiB", "5MiB" or "1GiB"
9:1: provider[1].retri: unknown key "retri"; did you mean "retries"?
10:8: provider[1].docs: docs "http://acme.example": want an https link; "onceward providers show NAME" prints built-in ones in the same terms
11:1: provider[1].type: type: locator "jsn:type": want header:NAME, query:NAME, form:FIELD, json:PATH or another kind; "onceward providers show NAME" prints built-in ones in the same terms
12:1: provider[1].event_headers: header "Cookie": carries a credential and never passes; "onceward providers show NAME" prints built-in ones in the same terms
16:7: provider[1].modes[0].hmac.sig: mode "signature": sig: locator "header:": not a header name; "onceward providers show NAME" prints built-in ones in the same terms
17:10: provider[1].modes[0].hmac.signed: mode "signature": signed: template "{timestam}": unknown name {timestam}: want body, timestamp, id, url, method, form, path, secret or another documented one, or a locator such as header:X; "onceward providers show NAME" prints built-in ones in the same terms
18:12: provider[1].modes[0].hmac.encoding: mode "signature": encoding "hexx": want hex, base64 or base64url; "onceward providers show NAME" prints built-in ones in the same terms
21:16: provider[1].modes[1].token.in: is an integer; want a string
23:8: provider[1].handshake[0].name: handshake "hello": detect: nothing tells the handshake from an event; "onceward providers show NAME" prints built-in ones in the same terms
23:8: provider[1].handshake[0].name: handshake "hello": option "nope" is not listed; "onceward providers show NAME" prints built-in ones in the same terms
26:8: provider[2].name: there is another provider "acme" in line 4; choose another name
28:8: provider[3].name: a provider holds no references; use an option, which a source sets
29:3: provider[4]: this provider has no name; write name = "…"
37:12: source[1].provider: unknown provider "acmee"; did you mean "acme"?`},
		{"tokens", `[[admin.token]]
name = "Ops"
role = "root"
hash = "abc"
[[admin.token]]
name = "admin"
hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
[[admin.token]]
name = "a"
role = "viewer"
hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
file = "x"
[[admin.token]]
name = "b"
role = "viewr"
hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
[[admin.token]]
name = "b"
role = "admin"
file = "no/such/file"
`, `
2:8: admin.token[0].name: token name "Ops" is not allowed; want 1 to 63 of a-z, 0-9, _ and -, not starting with _ or -
3:8: admin.token[0].role: unknown role "root"; want one of viewer, operator, admin
4:8: admin.token[0].hash: is not the hash of a token; want "sha256:" and 64 hexadecimal digits; the token itself belongs in no config
5:9: admin.token[1]: this token has no role; write role = "viewer", "operator" or "admin"
6:8: admin.token[1].name: "admin" is the token of token_file; choose another name
8:9: admin.token[2]: want either hash or file; ` + "`onceward admin token new`" + ` prints a token and its hash
13:9: admin.token[3]: is the same token as in line 5; give each its own
15:8: admin.token[3].role: unknown role "viewr"; did you mean "viewer"?
18:8: admin.token[4].name: there is another token "b" in line 14; names are identities; choose another
20:8: admin.token[4].file: read token: open no/such/file: no such file or directory; want one line of at least 16 characters`},
		{"registration", `[[source]]
name = "a"
provider = "stripe"
secrets = ["${env:SECRET}"]
registration = "pending"
targets = []
[[source]]
name = "b"
provider = "asana"
accept_unconfirmed = true
registration = "open"
targets = []
[[source]]
name = "c"
provider = "asana"
accept_unconfirmed = true
options = { registration_pending = "true" }
targets = []
[[source]]
name = "d"
provider = "asana"
accept_unconfirmed = true
registration = "pending"
roots = "none"
targets = []
`, `
5:16: source[0].registration: stripe hands over no secret; remove it, and write secrets = ["${env:NAME}"]
9:12: source[1].provider: this source has nothing to verify with; write registration = "pending" while asana is to hand its secret over, or secrets = ["${env:NAME}"]
11:16: source[1].registration: unknown registration "open"; want one of pending
17:36: source[2].options.registration_pending: option registration_pending is set by the gateway; write registration = "pending" in its place
24:9: source[3].roots: roots hold no certificate; want PEM, such as "${file:roots.pem}"`},
		{"options that are missing", `[[source]]
name = "sns"
provider = "aws_sns"
accept_unconfirmed = true
targets = []
[[source]]
name = "strava"
provider = "strava"
accept_unconfirmed = true
targets = []
`, `
3:12: source[0].provider: provider aws_sns: option topic_arn: is needed: a signature says only that some topic sent it; "onceward providers show aws_sns" says what it takes
6:3: warning: source[1]: the handshake "subscribe" of strava fails without option verify_token; write options = { verify_token = "…" }
8:12: source[1].provider: this source has nothing to verify with; write secrets = ["${env:NAME}"]; unsigned traffic needs provider = "none"`},
		{"addresses", "listen = \"8080\"\n[admin]\nlisten = \"127.0.0.1:99999\"\n", `
1:10: listen: "8080" is not an address; want host:port, such as "127.0.0.1:8080", or ":8080" for every interface
3:10: admin.listen: "127.0.0.1:99999" is not an address; want host:port, such as "127.0.0.1:8080", or ":8080" for every interface`},
		{"one socket twice", "listen = \":8081\"\n", `1:10: listen: both listeners are on :8081; give the admin listener a port of its own`},
		{"admin on every interface", "[admin]\nlisten = \":9\"\n", `2:10: warning: admin.listen: the admin listener is reachable from other machines; its token is the only guard; bind it to 127.0.0.1 unless that is meant`},
		{"durations", "drain = \"1\"\nreadiness_delay = \"-1s\"\n[retention]\nbody = \"999999999999d\"\nmeta = \"1h30\"\n", `
1:9: drain: "1" is not valid; want a duration such as "30s", "72h" or "30d"
2:19: readiness_delay: "-1s" is not valid; want a duration such as "30s", "72h" or "30d"
4:8: retention.body: "999999999999d" is not valid; want a duration such as "30s", "72h" or "30d"
5:8: retention.meta: "1h30" is not valid; want a duration such as "30s", "72h" or "30d"`},
		{"sizes", "[store]\nmemory_limit = \"1MiB\"\nreserve = \"18014398509481985KiB\"\nballast = \"1.5GiB\"\n", `
2:16: store.memory_limit: a memory limit of 1MiB is too small; want at least 64MiB
3:11: store.reserve: "18014398509481985KiB" is not valid; is more than 9223372036854775807 bytes; want a size such as "512KiB", "5MiB" or "1GiB"
4:11: store.ballast: "1.5GiB" is not valid; want a size such as "512KiB", "5MiB" or "1GiB"`},
		{"postgres without a database", "[store]\ndriver = \"postgres\"\n", `1:2: store: the postgres driver needs a dsn; write dsn = "${env:DATABASE_URL}", or ${file:path}`},
		{"postgres", "[store]\ndriver = \"postgres\"\ndsn = \"${env:DSN:-host=h password=pw dbname=d}\"\nschema = \"o_1\"\ngateway = \"gw-1.example\"\nexec_mode = \"describe\"\nmax_conns = 4\nstatement_timeout = \"2s\"\nmigrate = true\n", ""},
		{"postgres, all at once", `[store]
driver = "postgres"
dsn = "postgres://u:pw@h/d?sslmode=maybe"
schema = "Öffnung"
gateway = "a b"
exec_mode = "prepared"
max_conns = 1
statement_timeout = "1ms"
lock_timeout = "1h"
path = "data"
reserve = "1XB"
ballast = "1MiB"
body_size = "1MiB"
max_size = "1MiB"
[[source]]
name = "a"
provider = "asana"
registration = "pending"
accept_unconfirmed = true
targets = []
`, `
3:7: store.dsn: the dsn can't be read; want postgres://user@host:port/database or key=value pairs, and its files to be there
4:10: store.schema: schema "Öffnung" is not allowed; want up to 40 of a-z, 0-9 and _, not beginning with a digit
5:11: store.gateway: "a b" can't be a gateway's name; write gateway = "…": up to 200 letters, digits, ., _ and -, different for each gateway
6:13: store.exec_mode: unknown exec_mode "prepared"; did you mean "prepare"?
7:13: store.max_conns: max_conns = 1 is out of bounds; want 2 to 1000
8:21: store.statement_timeout: statement_timeout = "1ms" is out of bounds; want 1s to 10m
9:16: store.lock_timeout: lock_timeout = "1h" is out of bounds; want 100ms to 10m
10:1: store.path: path means nothing to the postgres driver; remove it
11:1: store.reserve: reserve means nothing to the postgres driver; remove it
11:11: store.reserve: "1XB" is not valid; want a size such as "512KiB", "5MiB" or "1GiB"
12:1: store.ballast: ballast means nothing to the postgres driver; remove it
13:1: store.body_size: body_size means nothing to the postgres driver; remove it
14:1: store.max_size: max_size means nothing to the postgres driver; remove it
18:16: source[0].registration: a secret that asana hands over would be known to one gateway alone; register with a gateway of driver "badger", then write its captured/a.secret here: secrets = ["${file:path}"]`},
		{"postgres, a password in the file", "[store]\ndriver = \"postgres\"\ndsn = \"host=h password=pw dbname=d\"\n", `3:7: warning: store.dsn: the password stands in the file itself; write ${env:NAME} or ${file:path}, or keep it in ~/.pgpass`},
		{"postgres, an empty dsn", "[store]\ndriver = \"postgres\"\ndsn = \" \"\n", `3:7: store.dsn: the dsn is empty; write dsn = "${env:DATABASE_URL}", or ${file:path}`},
		{"keys of postgres", "[store]\ndsn = \"x\"\nschema = \"s\"\ngateway = \"g\"\nexec_mode = \"prepare\"\nmax_conns = 8\nstatement_timeout = \"1s\"\nlock_timeout = \"1s\"\nmigrate = true\n", `
2:1: store.dsn: dsn means nothing to the badger driver; remove it
3:1: store.schema: schema means nothing to the badger driver; remove it
4:1: store.gateway: gateway means nothing to the badger driver; remove it
5:1: store.exec_mode: exec_mode means nothing to the badger driver; remove it
6:1: store.max_conns: max_conns means nothing to the badger driver; remove it
7:1: store.statement_timeout: statement_timeout means nothing to the badger driver; remove it
8:1: store.lock_timeout: lock_timeout means nothing to the badger driver; remove it
9:1: store.migrate: migrate means nothing to the badger driver; remove it`},
		{"driver misspelt", "[store]\ndriver = \"bagder\"\n", `2:10: store.driver: unknown driver "bagder"; did you mean "badger"?`},
		{"log", "[log]\nlevel = \"wran\"\nformat = \"xml\"\n", `
2:9: log.level: unknown level "wran"; did you mean "warn"?
3:10: log.format: unknown format "xml"; want one of auto, text, json`},
		{"networks", "trusted_proxies = [\"10.0.0.0/33\", \"0.0.0.0/0\", \"10.1.2.3\"]\n", `
1:20: trusted_proxies[0]: "10.0.0.0/33" is not valid; want a network such as "10.0.0.0/8", or an address
1:35: warning: trusted_proxies[1]: everyone is a trusted proxy; any sender can then choose the URL and address that are believed`},
		{"names", "[[source]]\nname = \"Stripe\"\nprovider = \"none\"\ntargets = []\n[[source]]\nname = \"api\"\nprovider = \"none\"\ntargets = []\n[[source]]\nprovider = \"none\"\ntargets = []\n[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = []\n[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = []\n", `
2:8: source[0].name: source name "Stripe" is not allowed; want 1 to 63 of a-z, 0-9, _ and -, not starting with _ or -
6:8: source[1].name: source name "api" is reserved; choose another
9:3: source[2]: this source has no name; write name = "…"
17:8: source[4].name: there is another source "a" in line 13; names are identities; choose another`},
		{"no provider", "[[source]]\nname = \"a\"\ntargets = []\n", `1:3: source[0]: this source has no provider; name one of "onceward providers list"; for unsigned traffic write provider = "none"`},
		{"provider misspelt", "[[source]]\nname = \"a\"\nprovider = \"gihtub\"\ntargets = []\n", `3:12: source[0].provider: unknown provider "gihtub"; did you mean "github"?`},
		{"nothing to verify with", "[[source]]\nname = \"a\"\nprovider = \"github\"\nsecrets = []\ntargets = []\n", `3:12: source[0].provider: this source has nothing to verify with; write secrets = ["${env:NAME}"]; unsigned traffic needs provider = "none"`},
		{"none in so many words", "[[source]]\nname = \"a\"\nprovider = \"idempotency-key\"\ntargets = []\n", `auth`},
		{"unconfirmed row", "[[source]]\nname = \"a\"\nprovider = \"hubspot\"\nsecrets = [\"${env:SECRET}\"]\ntargets = []\n", `3:12: source[0].provider: nobody has confirmed of hubspot`},
		{"no targets", "[[source]]\nname = \"a\"\nprovider = \"none\"\n", `2:8: warning: source[0].name: events of this source go to no target; they are kept and can be replayed later; write targets = [] if that is meant`},
		{"target misspelt", strings.Replace(stripe, `["billing"]`, `["biling"]`, 1), `
5:12: source[0].targets[0]: there is no target "biling"; did you mean "billing"?
7:8: warning: target[0].name: no source sends to target "billing"; name it in the targets of a source, or remove it`},
		{"route to nowhere", "[[source]]\nname = \"a\"\nprovider = \"none\"\n[[source.route]]\ntarget = \"crm\"\ntypes = [\"\"]\n", `
5:10: source[0].route[0].target: there is no target "crm"; add a [[target]] of that name
6:10: source[0].route[0].types[0]: an empty type matches nothing; want types such as "customer.*"`},
		{"policies", strings.Replace(stripe, "targets", "on_conflict = \"reject\"\nno_id = \"body_hash\"\nguard = \"\"\nbatch = \"whole\"\ntargets", 1), `
5:15: source[0].on_conflict: reject would refuse events of stripe that it never sends again; use "ack" or "deliver"; reject is for idempotency-key sources
6:9: source[0].no_id: unknown no_id "body_hash"; did you mean "body-hash"?
7:9: source[0].guard: unknown guard ""; want one of off, flag, drop
8:9: source[0].batch: unknown batch "whole"; want one of split, keep`},
		{"short window", strings.Replace(stripe, "targets", "window = \"1h\"\ntargets", 1), `5:10: source[0].window: a window of 1h is shorter than stripe resends events: 30d; a later resend would be delivered again; lengthen it, or write allow_short_window = true`},
		{"short window on purpose", strings.Replace(stripe, "targets", "window = \"1h\"\nallow_short_window = true\ntargets", 1), ""},
		{"key template", strings.Replace(stripe, "targets", "key = \"{source}\"\ntargets", 1), `5:7: source[0].key: key template "{source}": needs {id}, {hash} or {ref}, else all events would share one key`},
		{"bounds", strings.Replace(stripe, "targets", "max_elements = 2000\nbody_limit = \"65MiB\"\ntolerance = \"48h\"\ntargets", 1), `
5:16: source[0].max_elements: max_elements is out of bounds; want 1 to 1000
6:14: source[0].body_limit: a body limit of 65MiB is out of bounds; want 1B to 64MiB
7:13: source[0].tolerance: tolerance = "2d" is out of bounds; want 1s to 24h`},
		{"paths", "[[source]]\nname = \"a\"\npath = \"x\"\nprovider = \"none\"\ntargets = []\n[[source]]\nname = \"b\"\npath = \"/x//y\"\nprovider = \"none\"\ntargets = []\n[[source]]\nname = \"c\"\npath = \"/a b\"\nprovider = \"none\"\ntargets = []\n[[source]]\nname = \"d\"\npath = \"/livez\"\nprovider = \"none\"\ntargets = []\n", `
3:8: source[0].path: path "x" is not usable; want an absolute path with at least one part, such as "/hooks/stripe"
8:8: source[1].path: path "/x//y" holds an empty part or dots; write it as senders call it
13:8: source[2].path: path "/a b" holds a character that would be escaped; want letters, digits and any of / - . _ ~
18:8: source[3].path: path "/livez" is reserved; choose another first part`},
		{"shadows", "[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = []\n[[source]]\nname = \"b\"\npath = \"/in/a/more/\"\nprovider = \"none\"\ntargets = []\n", `7:8: source[1].path: source "b" at /in/a/more and source "a" at /in/a shadow each other; give one of them another path`},
		{"secrets", "[[source]]\nname = \"a\"\nprovider = \"github\"\nsecrets = [\"\", \"env:GITHUB\", \" padded-and-long-enough \", \"short\", { id = \"4\", value = \"${env:SECRET}\", valu = 1 }, { caller = \"x\" }]\ntargets = []\n", `
4:12: source[0].secrets[0]: the secret is empty; an empty secret would let everyone in
4:16: source[0].secrets[1]: the secret looks like a reference but would be used as it stands; write ${env:NAME} or ${file:path}
4:30: source[0].secrets[2]: the secret begins or ends with white space; remove it; one newline at the end of a file is removed already
4:58: warning: source[0].secrets[3]: the secret is shorter than 16 bytes; use a longer one if the provider lets you
4:58: warning: source[0].secrets[3]: the secret stands in the file itself; write ${env:NAME} or ${file:path}
4:87: source[0].secrets[4].value: there are two secrets with the label "4"; give each an id of its own
4:104: source[0].secrets[4].valu: unknown key "valu"; did you mean "value"?
4:116: source[0].secrets[5]: has no value; write value = "${env:NAME}"`},
		{"references", "listen = \"${env:NOPE}\"\ndrain = \"${foo}\"\n[log]\nlevel = \"${env:SECRET\"\nformat = \"$${env:X}\"\n[store]\npath = \"${env:NOPE:-here}\"\n", `
1:10: listen: ${env:NOPE} is not set; set NOPE in the environment, or write ${env:NOPE:-default}
1:10: listen: "" is not an address; want host:port, such as "127.0.0.1:8080", or ":8080" for every interface
2:9: drain: unknown reference ${foo}; want ${env:NAME}, ${env:NAME:-default} or ${file:path}; write $${ for a literal ${
4:9: log.level: a ${ is never closed; write $${ for a literal ${
5:10: log.format: unknown format "${env:X}"; want one of auto, text, json`},
		{"target URLs", targetURLs("", "ftp://h/", "http:///x", "http://u:p@h/", "http://h/#f", "http://169.254.169.254/", "http://[::ffff:169.254.1.1]/", "http://[fe80::1]/", "http://0.0.0.0:1/", "http://metadata.google.internal/", "http://localhost:8080/in/a", "http://%zz/"), `
2:7: target[0].url: the url is empty; write url = "http://127.0.0.1:9000/"
5:7: target[1].url: the url is neither http nor https; want one such as "http://127.0.0.1:9000/hooks"
8:7: target[2].url: the url has no host; want one such as "http://127.0.0.1:9000/hooks"
11:7: target[3].url: the url holds a user or password; put them into headers, from a reference
14:7: target[4].url: the url has a fragment, which is never sent; remove it
17:7: target[5].url: the url leads to a link-local, metadata, multicast or unspecified address; these are never called
20:7: target[6].url: the url leads to a link-local, metadata, multicast or unspecified address; these are never called
23:7: target[7].url: the url leads to a link-local, metadata, multicast or unspecified address; these are never called
26:7: target[8].url: the url leads to a link-local, metadata, multicast or unspecified address; these are never called
29:7: target[9].url: the url leads to a link-local, metadata, multicast or unspecified address; these are never called
32:7: target[10].url: the url leads back to this gateway; events would go in circles
35:7: target[11].url: the url can't be parsed; want one such as "http://127.0.0.1:9000/hooks"`},
		{"body sizes", strings.Replace(stripe, "[[target]]", "retention = { body_size = \"1KiB\" }\n[[source]]\nname = \"b\"\nprovider = \"none\"\ntargets = []\n[source.retention]\nbody_size = \"1GiB\"\n[[target]]", 1) + "body_size = \"1GiB\"\n", `
6:27: source[0].retention.body_size: a body size of 1KiB is too small; want at least 1MiB, or remove it for no limit
18:13: retention.body_size: body_size is a source's own; write it in the [source.retention] of that source, or body_size in [store] for all together`},
		{"target pauses", strings.Replace(stripe, "[retention]", "schedule = [\"5s\", \"1ms\", \"5x\", 7]\njitter = 1.5\nfactor = 3\nmax = \"1h\"\n[retention]", 1), `
9:19: target[0].schedule[1]: a pause = "1ms" is out of bounds; want 10ms to 7d
9:26: target[0].schedule[2]: "5x" is not valid; want a duration such as "30s", "72h" or "30d"
9:32: target[0].schedule[3]: is an integer; want a string
10:10: target[0].jitter: jitter is out of bounds; want 0, none, to 1, all of the pause
11:10: target[0].factor: factor shapes a curve, and there is a schedule in its place; remove one of them
12:7: target[0].max: max shapes a curve, and there is a schedule in its place; remove one of them`},
		{"target without pauses", strings.Replace(stripe, "[retention]", "schedule = []\n[retention]", 1), `
9:1: target[0].schedule: the schedule is empty; write schedule = ["5s", "5m", "30m"], or remove it`},
		{"target rate and memory", strings.Replace(stripe, "[retention]", "burst = 5\nmemory = \"1KiB\"\npause_on = [410, 200, 410]\nretry_on = [410]\n[target.breaker]\nfailures = 0\nratio = 0.01\nprobe = \"1m\"\nprobe_max = \"1s\"\nof = true\n[retention]", 1), `
9:9: target[0].burst: there is a burst, and no rate; write rate = "50/s" as well, or remove it
10:10: target[0].memory: memory = "1KiB" is out of bounds; want 64KiB to 64GiB
11:13: target[0].pause_on[0]: 410 is in retry_on as well; remove it from one of them
11:18: target[0].pause_on[1]: 200 is no status that could be overridden; want 300 to 599; 2xx is always delivered
11:23: target[0].pause_on[2]: 410 is there twice; remove one
14:12: target[0].breaker.failures: failures is out of bounds; want 1 to 1000
15:9: target[0].breaker.ratio: ratio is out of bounds; want 0.05 to 1
17:13: target[0].breaker.probe_max: probe_max is shorter than probe; the wait for a probe can only grow
18:1: target[0].breaker.of: unknown key "of"; did you mean "off"?`},
		{"target rates", strings.Replace(stripe, "[retention]", "rate = \"50\"\nburst = 0\n[[target]]\nname = \"b\"\nurl = \"http://127.0.0.1:9/\"\nrate = \"0/s\"\n[[target]]\nname = \"c\"\nurl = \"http://127.0.0.1:9/\"\nrate = \"1.5/s\"\n[[target]]\nname = \"d\"\nurl = \"http://127.0.0.1:9/\"\nrate = \"5/d\"\n[retention]", 1), `
9:8: target[0].rate: "50" is not valid; want a rate such as "50/s", "300/m" or "1000/h"
10:9: target[0].burst: burst is out of bounds; want 1 to 1000000
12:8: warning: target[1].name: no source sends to target "b"; name it in the targets of a source, or remove it
14:8: target[1].rate: "0/s" is not valid; want a rate such as "50/s", "300/m" or "1000/h"
16:8: warning: target[2].name: no source sends to target "c"; name it in the targets of a source, or remove it
18:8: target[2].rate: "1.5/s" is not valid; want a rate such as "50/s", "300/m" or "1000/h"
20:8: warning: target[3].name: no source sends to target "d"; name it in the targets of a source, or remove it
22:8: target[3].rate: "5/d" is not valid; want a rate such as "50/s", "300/m" or "1000/h"`},
		{"target numbers", strings.Replace(stripe, "[retention]", "timeout = \"1h\"\nconcurrency = 5000\ninitial = \"2h\"\nfactor = 0.5\ngive_up_after = \"200d\"\nretry_on = [404, 200]\ndead_on = [404]\n[retention]", 1), `
1:3: warning: source[0]: events are kept 60d, but target "billing" may take 214d
9:11: target[0].timeout: timeout = "1h" is out of bounds; want 100ms to 10m
10:15: target[0].concurrency: concurrency is out of bounds; want 1 to 1024
11:11: target[0].initial: initial is longer than max; the first pause can't be longer than the longest
12:10: target[0].factor: factor is out of bounds; want 1 to 100
13:17: target[0].give_up_after: give_up_after = "200d" is out of bounds; want 1s to 90d
14:18: target[0].retry_on[1]: 200 is no status that could be overridden; want 300 to 599; 2xx is always delivered
15:12: target[0].dead_on[0]: 404 is in retry_on as well; remove it from one of them`},
		{"target headers", strings.Replace(stripe, "[retention]", "headers = { Idempotency-Key = \"x\", A_B = \"x\", C = \"env:TOKEN\", D = \"a\\nb\" }\nsigning_secrets = [\"whsec_x\"]\n[retention]", 1), `
9:31: target[0].headers.Idempotency-Key: this header is set by the gateway; remove it
9:42: target[0].headers.A_B: is not a header name; want letters, digits and -
9:51: target[0].headers.C: the value looks like a reference but would be sent as it stands; write ${env:NAME} or ${file:path}
9:68: target[0].headers.D: the value holds a control character; a header is one line
10:20: warning: target[0].signing_secrets[0]: the secret is shorter than 16 bytes; use a longer one if the provider lets you
10:20: warning: target[0].signing_secrets[0]: the secret stands in the file itself; write ${env:NAME} or ${file:path}
10:20: target[0].signing_secrets[0]: signing secret: want whsec_ and base64; want one as Standard Webhooks writes it: "whsec_" and base64`},
		{"old names", "[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = []\nformerly = [\"b\", \"old\", \"X\"]\n[[source]]\nname = \"b\"\nprovider = \"none\"\ntargets = []\nformerly = [\"old\"]\n", `
5:13: source[0].formerly[0]: "b" is a source now; a name has one owner; remove it here or rename that source
5:25: source[0].formerly[2]: "X" can't have been a source name; remove it
10:13: source[1].formerly[0]: "old" is taken over in line 5 already; a name has one heir`},
		{"kept shorter than tried", strings.Replace(stripe, "60d", "10d", 1), `1:3: warning: source[0]: events are kept 10d, but target "billing" may take 17d; open events are carried over, at the cost of disk; keep them longer or give up sooner`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, fs := Parse("c.toml", []byte(tt.toml), envOf("SECRET", "whsec_0123456789abcdef"))
			want, got := strings.TrimPrefix(tt.want, "\n"), strings.TrimSuffix(lines(fs), "\n")
			wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
			if len(wants) != len(gots) {
				t.Fatalf("got %d faults, want %d\ngot:\n%s\nwant:\n%s", len(gots), len(wants), got, want)
			}
			for i := range wants {
				if !strings.Contains(gots[i], wants[i]) || want == "" && got != "" {
					t.Errorf("fault %d\n got %s\nwant %s", i, gots[i], wants[i])
				}
			}
		})
	}
}

// targetURLs is a target per URL, three lines each, and a source for all.
func targetURLs(urls ...string) string {
	var b strings.Builder
	var names []string
	for i, u := range urls {
		name := "t" + string(rune('a'+i))
		names = append(names, `"`+name+`"`)
		b.WriteString("[[target]]\nurl = \"" + u + "\"\nname = \"" + name + "\"\n")
	}
	return b.String() + "[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = [" + strings.Join(names, ", ") + "]\n[retention]\nbody = \"60d\"\n"
}

// TestFaultsHoldNoValue puts a canary behind every kind of reference and
// looks for it in all that a configuration can say.
func TestFaultsHoldNoValue(t *testing.T) {
	t.Parallel()
	const canary = "canary-3f9c"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(canary+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var bad strings.Builder
	bad.WriteString("listen = \"${env:C}\"\ndrain = \"${env:C}\"\ntrusted_proxies = [\"${env:C}\"]\n")
	bad.WriteString("[admin]\nlisten = \"${env:C}\"\n[store]\ndriver = \"${env:C}\"\nmemory_limit = \"${env:C}\"\ndsn = \"${env:C}\"\n[log]\nlevel = \"${env:C}\"\n[audit]\nkey = \"${env:C}\"\nwitness = \"ftp://${env:C}\"\n")
	bad.WriteString("[[source]]\nname = \"${env:C}\"\nprovider = \"${env:C}\"\n")
	bad.WriteString("[[source]]\nname = \"a\"\nprovider = \"hmac\"\nauth = \"${env:C}\"\non_conflict = \"${env:C}\"\nkey = \"${env:C}\"\npath = \"${env:C}\"\nsecrets = [\"${file:" + file + "}\", { id = \"x\", value = \"${env:C}\", not_before = \"${env:C}\" }]\n" +
		"options = { header = \"${env:C} \", digest = \"${env:C}\" }\ntargets = [\"${env:C}\"]\n")
	bad.WriteString("[[target]]\nname = \"t\"\nurl = \"ftp://${env:C}/\"\nheaders = { A = \"${env:C}\\n\" }\nsigning_secrets = [\"${env:C}\"]\nallow = [\"${env:C}\"]\nformerly = [\"${env:C}\"]\n")
	cfg, fs := Parse("c.toml", []byte(bad.String()), envOf("C", canary))
	if !fs.Failed() {
		t.Fatal("no faults found")
	}
	var printed strings.Builder
	if err := cfg.Print(&printed); err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if strings.Contains(f.String(), canary) {
			t.Errorf("fault shows an expanded value: %s", f)
		}
	}
	for line := range strings.Lines(printed.String()) {
		if strings.Contains(line, canary) && regexp.MustCompile(`secret|header|url|options|A =|digest|dsn|key = '\[|witness`).MatchString(line) {
			t.Errorf("print shows a secret: %s", line)
		}
	}
}

func TestStrict(t *testing.T) {
	t.Parallel()
	env := envOf()
	cfg, fs := Parse("c.toml", []byte(stripe), env)
	want := "4:12: warning: source[0].secrets[0]: ${env:SECRET} is not set; until then source \"stripe\" is offline and answers 503; set it\n"
	if got := lines(fs); got != want {
		t.Errorf("got %s want %s", got, want)
	}
	if src, _ := cfg.Source("stripe"); src.Offline() == "" || src.Verifier() != nil {
		t.Errorf("source is not offline: %q, %v", src.Offline(), src.Verifier())
	}
	env.Strict = true
	if _, fs = Parse("c.toml", []byte(stripe), env); !fs.Failed() || fs.Err() == nil {
		t.Errorf("strict takes an offline source: %v", fs)
	}
	both := strings.Replace(stripe, `["${env:SECRET}"]`, `["${env:SECRET}", "${env:NEXT}"]`, 1)
	cfg, fs = Parse("c.toml", []byte(both), envOf("NEXT", "whsec_0123456789abcdef"))
	if src, _ := cfg.Source("stripe"); src.Offline() != "" || src.Verifier() == nil || len(fs) != 1 || !fs[0].Warning {
		t.Errorf("one of two secrets is set, yet %q and %v", src.Offline(), fs)
	}
}

func TestFileReference(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("one", "whsec_0123456789abcdef\n", 0o600)
	write("crlf", "whsec_0123456789abcdef\r\n", 0o600)
	write("two", "whsec_0123456789abcdef\n\n", 0o600)
	write("open", "whsec_0123456789abcdef\n", 0o644)
	for _, tt := range []struct{ file, want string }{
		{"one", ""},
		{"crlf", ""},
		{"two", "begins or ends with white space"},
		{"open", "readable by everyone"},
		{"gone", "is not set"},
	} {
		write("config.toml", strings.Replace(stripe, "env:SECRET", "file:"+tt.file, 1), 0o600)
		cfg, fs := Load(filepath.Join(dir, "config.toml"), envOf())
		if got := lines(fs); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.file, got, tt.want)
		}
		if got := cfg.Sources[0].Secrets[0].Value.Reveal(); tt.want == "" && got != "whsec_0123456789abcdef" {
			t.Errorf("%s: secret is %q", tt.file, got)
		}
		if got, want := cfg.StorePath(), filepath.Join(dir, "data"); got != want {
			t.Errorf("store path %q, want %q", got, want)
		}
	}
	if _, fs := Load(filepath.Join(dir, "nowhere.toml"), envOf()); !fs.Failed() || !strings.Contains(fs.Error(), "can't be read: no such file") {
		t.Errorf("missing file: %v", fs)
	}
}

func TestShippedConfig(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../config.toml")
	if err != nil {
		t.Fatal(err)
	}
	if _, fs := Parse("config.toml", text, envOf()); len(fs) > 0 {
		t.Errorf("the shipped config has faults:\n%v", fs)
	}
	setting := regexp.MustCompile(`(?m)^# (\[+[a-z.]+\]+|[a-z_]+ +=.*)$`)
	all := setting.ReplaceAll(text, []byte("$1"))
	env := envOf("STRIPE_WEBHOOK_SECRET", "whsec_0123456789abcdef", "TWILIO_AUTH_TOKEN", "0123456789abcdef0123456789abcdef",
		"INTERNAL_SECRET", "0123456789abcdef", "SHOP_TOKEN", "0123456789abcdef", "BILLING_TOKEN", "x", "LEDGER_TOKEN", "0123456789abcdef", "ACME_SECRET", "0123456789abcdef",
		"DESK_PULL_TOKEN", "0123456789abcdef0123456789abcdef", "BILLING_SIGNING_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	var other strings.Builder // the driver of several gateways, in place of the embedded one
	for _, line := range regexp.MustCompile(`(?m)^#   ([a-z_]+ +=.*)$`).FindAllStringSubmatch(string(text), -1) {
		other.WriteString(line[1] + "\n")
	}
	if cfg, fs := Parse("postgres.toml", []byte("[store]\n"+other.String()), envOf("DATABASE_URL", "host=h dbname=d")); len(fs) > 0 || !cfg.Shared() {
		t.Errorf("the shipped example of a ledger in PostgreSQL has faults:\n%v", fs)
	}
	cfg, fs := Parse("config.toml", all, env)
	if fs.Failed() {
		t.Errorf("an example of the shipped config has faults:\n%v", fs)
	}
	if len(cfg.Sources) != 10 || len(cfg.Targets) != 5 || len(cfg.Providers) != 1 {
		t.Errorf("got %d sources, %d targets and %d providers of the examples, want 10, 5 and 1", len(cfg.Sources), len(cfg.Targets), len(cfg.Providers))
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"10s", "1h30m", "72h", "30d", "400d", "250ms", "36h", "1m30s", "0s"} {
		var d Duration
		if err := d.UnmarshalText([]byte(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		var back Duration
		if err := back.UnmarshalText([]byte(d.String())); err != nil || back != d {
			t.Errorf("%s prints as %s, which reads as %v, %v", s, d, back, err)
		}
	}
	for _, s := range []string{"", "d", "s", "-1s", "+1s", "1", "1dd", "-1d", "1.5d", "106752d", "9999999h", "1d-1h", "1d 1h"} {
		var d Duration
		if err := d.UnmarshalText([]byte(s)); err == nil {
			t.Errorf("duration %q was taken as %v", s, d)
		}
	}
	for s, want := range map[string]Size{"0": 0, "4096": 4096, "5MiB": 5 << 20, "10MB": 1e7, "1TiB": 1 << 40, "12B": 12} {
		var got Size
		if err := got.UnmarshalText([]byte(s)); err != nil || got != want {
			t.Errorf("size %q is %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "MiB", "-1", "1.5MiB", "5 M", "5mib", "5MiBs", "18014398509481985KiB", "9223372036854775808"} {
		var got Size
		if err := got.UnmarshalText([]byte(s)); err == nil {
			t.Errorf("size %q was taken as %d", s, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(stripe))
	f.Add([]byte("a.b.c = { d = [1, [2], { e = 3 }] }\n[[x]]\n[x.y]\n[[x.z]]\n"))
	f.Add([]byte("[[source]]\nname='a'\n[source.retention]\nbody='1d'\n[[source.route]]\ntarget='b'\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, fs := Parse("c.toml", data, envOf())
		for _, fault := range fs {
			if fault.Problem == "" || fault.Line < 0 {
				t.Errorf("fault says nothing: %+v", fault)
			}
		}
		if err := cfg.Print(&strings.Builder{}); err != nil {
			t.Errorf("print: %v", err)
		}
	})
}

const acmeFaults = `[[provider]]
name = "stripe"
[[provider]]
name = "acme"
retries = "1 day"
methods = ["post"]
no_id = "never"
body_limit = -1
retri = "red"
docs = "http://acme.example"
type = ["jsn:type"]
event_headers = ["Cookie"]
[[provider.modes]]
name = "signature"
[provider.modes.hmac]
sig = "header:"
signed = "{timestam}"
encoding = "hexx"
[[provider.modes]]
name = "token"
token = { in = 7 }
[[provider.handshake]]
name = "hello"
compare = ["query:token=nope"]
[[provider]]
name = "acme"
[[provider]]
name = "${env:SECRET}"
[[provider]]
id = ["json:id"]
[[source]]
name = "a"
provider = "acme"
targets = []
[[source]]
name = "b"
provider = "acmee"
targets = []
`
