package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateLicences = flag.Bool("update-licences", false, "write docs/licences.md")

// licences are the licences a module of the program may have, by a sentence
// that is in their text and in no other's. The first that fits counts.
var licences = []struct{ id, in string }{
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose with or without fee"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD-3-Clause", "Neither the name of"},
	{"BSD-3-Clause", "The name of the author may not be used"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
	{"Unlicense", "This is free and unencumbered software released into the public domain"},
}

var (
	blanks      = regexp.MustCompile(`\s+`)
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)(\.|-|$)`)
)

// licenceOf is the licence of a module by its directory, "" when it has none
// that is known.
func licenceOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) || e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		plain := blanks.ReplaceAllString(string(text), " ")
		for _, l := range licences {
			if strings.Contains(strings.ToLower(plain), strings.ToLower(l.in)) {
				return l.id
			}
		}
	}
	return ""
}

// linked is every module that the program is built of, with its directory.
func linked(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=Module", ".")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if m := p.Module; m != nil && !m.Main {
			all[m.Path+" "+m.Version] = m.Dir
		}
	}
	return all
}

// TestLicences: docs/licences.md lists every module that the program is built
// of with its licence, and each has one of those that are taken.
func TestLicences(t *testing.T) {
	t.Parallel()
	var rows []string
	for m, dir := range linked(t) {
		id := licenceOf(t, dir)
		if id == "" {
			t.Errorf("%s: no licence that is known in %s", m, dir)
		}
		path, version, _ := strings.Cut(m, " ")
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |\n", path, version, id))
	}
	slices.Sort(rows)
	want := "# Licences\n\nEvery module that the program is built of (linux/amd64), from the module's own\nlicence file. Written by `go test . -run TestLicences -update-licences`.\n\n" +
		"| module | version | licence |\n| --- | --- | --- |\n" + strings.Join(rows, "")
	const file = "docs/licences.md"
	if *updateLicences {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: go test . -run TestLicences -update-licences", file)
	}
}

// TestLicenceOf: the texts are told apart, and one that nobody knows is none.
func TestLicenceOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0, January 2004":                                                     "Apache-2.0",
		"Permission is hereby granted, free of charge,\nto any person obtaining a copy":                    "MIT",
		"Redistributions in binary form must reproduce the above\ncopyright notice. Neither the name of X": "BSD-3-Clause",
		"Redistributions in binary form must reproduce the above copyright notice":                         "BSD-2-Clause",
		"All rights reserved. You may look at it.":                                                         "",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "LICENSE.txt"), []byte(text), fs.FileMode(0o600)); err != nil {
			t.Fatal(err)
		}
		if got := licenceOf(t, dir); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
