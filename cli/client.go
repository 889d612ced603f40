package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/gateway"
)

// place is where the gateway and its token are.
type place struct{ addr, tokenFile string }

// tokenVariable holds the admin token itself, where there is no file with it.
const tokenVariable = "ONCEWARD_TOKEN"

// token is the token at a place: that of the file that was named, else of the
// environment, else of the config's file.
func (a *app) token(at place) (string, error) {
	if token, set := a.Env(tokenVariable); set && token != "" && a.flags.tokenFile == "" {
		return token, nil
	}
	if at.tokenFile == "" {
		return "", errors.New("no token: it was shown at the first start of a gateway on this ledger, or the config holds its hash; set " + tokenVariable + " to it, or name its file with --token-file")
	}
	token, err := admin.ReadToken(at.tokenFile)
	if err != nil {
		err = fmt.Errorf("%w (the gateway made it at its first start; --token-file names another file)", err)
	}
	return token, err
}

// find says where the gateway is, by the flags or by the config. A config with
// faults still says it.
func (a *app) find() (place, error) {
	at := place{a.flags.addr, a.flags.tokenFile}
	if at.addr != "" && at.tokenFile != "" {
		return at, nil
	}
	cfg, faults, _, err := a.load(false)
	if err != nil {
		return at, err
	}
	if at.addr == "" {
		at.addr = cfg.Admin.Listen
	}
	if at.tokenFile == "" {
		at.tokenFile = cfg.TokenFile()
	}
	if at.addr == "" {
		writeFaults(a.Stderr, faults, palette{})
		return at, fail(exitConfig, "the config does not say where the gateway is; --addr does")
	}
	return at, nil
}

// connect makes a client. Where there is no token to be read, it finds out
// whether there is a gateway at all, which is the better thing to say.
func (a *app) connect(ctx context.Context) (*admin.Client, error) {
	at, err := a.find()
	if err != nil {
		return nil, err
	}
	token, tokenErr := a.token(at)
	c, err := admin.NewClient(admin.ClientConfig{Addr: at.addr, Token: token, Reason: a.flags.reason})
	if err != nil {
		return nil, usage("%w", err)
	}
	if tokenErr == nil {
		return c, nil
	}
	defer c.Close()
	if err := c.Ready(ctx); errors.Is(err, admin.ErrUnreachable) {
		return nil, apiErr(err)
	}
	return nil, &codedError{exitNotAllowed, tokenErr}
}

// call connects and hands the client on; errors get their exit codes.
func (a *app) call(ctx context.Context, do func(*admin.Client) error) error {
	c, err := a.connect(ctx)
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
