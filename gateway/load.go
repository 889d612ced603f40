package gateway

import (
	"os"
	"path/filepath"
	"reflect"
)

// Load reads and checks the configuration file at path. The Config is never
// nil, and fit for use only when the Faults hold no error.
func Load(path string, env Env) (*Config, Faults) {
	data, err := os.ReadFile(path)
	if err != nil {
		cfg := defaults()
		cfg.file, cfg.dir = path, filepath.Dir(path)
		return cfg, Faults{{File: path, Problem: "can't be read: " + cause(err), Remedy: "name another with --config"}}
	}
	return parse(path, filepath.Dir(path), data, env)
}

// Parse is Load for bytes that are already read. The name stands in the
// faults; relative paths in the configuration start at the working directory.
func Parse(name string, data []byte, env Env) (*Config, Faults) {
	return parse(name, "", data, env)
}

func parse(name, dir string, data []byte, env Env) (*Config, Faults) {
	cfg := defaults()
	cfg.file, cfg.dir = name, dir
	rep := &report{file: name}
	tree := parseTree(data, rep)
	if tree == nil {
		return cfg, rep.sorted()
	}
	cfg.tree = tree
	(&expander{env: env, dir: dir, rep: rep}).walk(tree)
	(&decoder{rep: rep}).table(tree, reflect.ValueOf(cfg).Elem())
	checkUnset(tree, rep)
	cfg.fill()
	(&checker{cfg: cfg, rep: rep, strict: env.Strict}).run()
	cfg.hash = hashOf(cfg)
	return cfg, rep.sorted()
}
