package cli

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/gateway"
)

// connect makes a client for the gateway that the flags or the config name. A
// config with faults still says where the gateway is.
func (a *app) connect() (*admin.Client, error) {
	addr, file := a.flags.addr, a.flags.tokenFile
	if addr == "" || file == "" {
		cfg, faults, _, err := a.load(false)
		if err != nil {
			return nil, err
		}
		if addr == "" {
			addr = reachable(cfg.Admin.Listen)
		}
		if file == "" {
			file = cfg.TokenFile()
		}
		if addr == "" {
			writeFaults(a.Stderr, faults, palette{})
			return nil, fail(exitConfig, "the config does not say where the gateway is; --addr does")
		}
	}
	token, err := readToken(file)
	if err != nil {
		return nil, err
	}
	c, err := admin.NewClient(admin.ClientConfig{Addr: addr, Token: token})
	if err != nil {
		return nil, usage("%w", err)
	}
	return c, nil
}

// readToken reads the admin token; it is in no error.
func readToken(file string) (string, error) {
	token, err := admin.ReadToken(file)
	if err != nil {
		return "", &codedError{exitNotAllowed, fmt.Errorf("%w (the gateway makes the token at its first start; --token-file names another file)", err)}
	}
	return token, nil
}

// call connects and hands the client on; errors get their exit codes.
func (a *app) call(do func(*admin.Client) error) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	return apiErr(do(c))
}

// apiErr gives an error of the admin API its exit code and what to do about it.
func apiErr(err error) error {
	var api *admin.APIError
	switch {
	case err == nil, hasCode(err):
		return err
	case errors.Is(err, admin.ErrUnreachable):
		return &codedError{exitUnreachable, fmt.Errorf("%w (is it running? --addr names another)", err)}
	case errors.As(err, &api):
		return &codedError{codeOfAPI(api.Code), err}
	}
	return err
}

// codeOfAPI is the exit code for an error code of the API.
func codeOfAPI(code string) int {
	switch code {
	case admin.CodeInvalid, admin.CodeAmbiguous:
		return exitUsage
	case admin.CodeConfig:
		return exitConfig
	case admin.CodeNotFound, admin.CodePruned:
		return exitNotFound
	case admin.CodeStore, admin.CodeDamaged:
		return exitStore
	case admin.CodeUnauthorized, admin.CodeForbidden, admin.CodeHost, admin.CodeLimited:
		return exitNotAllowed
	}
	return exitFailed
}

// faultsOf turns the API's faults into those of the config.
func faultsOf(fs []admin.Fault) gateway.Faults {
	out := make(gateway.Faults, len(fs))
	for i, f := range fs {
		out[i] = gateway.Fault{File: f.File, Line: f.Line, Column: f.Column, Key: f.Key, Problem: f.Problem, Remedy: f.Remedy, Warning: f.Warning}
	}
	return out
}
