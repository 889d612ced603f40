// Command onceward receives webhooks, verifies them over their exact bytes,
// keeps each event once, and forwards it until it has landed.
package main

import (
	"context"
	"embed"
	"os"

	"github.com/onceward/onceward/cli"
)

// config is the shipped configuration: what `onceward serve` starts from where
// there is no other.
//
//go:embed config.toml
var config []byte

// samples are the bodies that trigger and sign send for well-known providers.
//
//go:embed testdata/samples
var samples embed.FS

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.IO{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.LookupEnv, Config: config, Samples: samples,
	}))
}
