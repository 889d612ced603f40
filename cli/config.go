package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/onceward/onceward/gateway"
)

// shipped names the embedded config in faults and in words.
const shipped = "(shipped config.toml)"

// configPlaces are looked at, in this order, when no file is named.
var configPlaces = []string{"config.toml", "/etc/onceward/config.toml"}

// locate finds the config file; "" is the shipped one. A file that is there and
// cannot be read is an error, never a reason to go on to the next place.
func (a *app) locate() (string, error) {
	if a.flags.config != "" {
		return a.flags.config, nil
	}
	for _, place := range configPlaces {
		_, err := os.Stat(place)
		if err == nil {
			return place, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fail(exitConfig, "look for the config: %w", err)
		}
	}
	return "", nil
}

// load reads the config that locate finds.
func (a *app) load(strict bool) (*gateway.Config, gateway.Faults, string, error) {
	path, err := a.locate()
	if err != nil {
		return nil, nil, "", err
	}
	env := gateway.Env{Lookup: a.Env, Strict: strict}
	if path == "" {
		cfg, faults := gateway.Parse(shipped, a.Config, env)
		return cfg, faults, "", nil
	}
	cfg, faults := gateway.Load(path, env)
	return cfg, faults, path, nil
}

// good is load for commands that need a config without errors.
func (a *app) good() (*gateway.Config, string, error) {
	cfg, faults, path, err := a.load(false)
	if err != nil {
		return nil, "", err
	}
	writeFaults(a.Stderr, faults, a.paletteFor(a.Stderr))
	if faults.Failed() {
		return nil, "", fail(exitConfig, "the config is not valid: %s", countFaults(faults))
	}
	return cfg, path, nil
}

// writeFaults prints one line per fault.
func writeFaults(w io.Writer, faults gateway.Faults, p palette) {
	for _, f := range faults {
		line := escape(f.String())
		if f.Warning {
			line = p.yellow(line)
		} else {
			line = p.red(line)
		}
		fmt.Fprintln(w, line)
	}
}

func countFaults(faults gateway.Faults) string {
	warnings := len(faults.Warnings())
	return plural(len(faults)-warnings, "error") + ", " + plural(warnings, "warning")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
