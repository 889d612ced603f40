package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/gateway"
)

// The exit codes: a contract with scripts and service managers.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitConfig      = 3
	exitNotFound    = 4
	exitPartly      = 5
	exitStore       = 6
	exitNotAllowed  = 7
	exitUnreachable = 8
	exitInterrupted = 130
	exitTerminated  = 143
)

const exitCodesHelp = `Every command ends with one of these codes:

    0  done
    1  failed while running
    2  wrong usage: unknown command or flag, bad argument, or nobody there to ask
    3  the config is not valid
    4  not found, or nothing matched
    5  partly done: some of it failed or was left open
    6  the ledger cannot be used: in use, damaged, newer, or the disk is full
    7  not allowed: the token is missing or wrong, or its role is too low
    8  the gateway cannot be reached
  130  ended by a second SIGINT; the first one drains
  143  ended by a second SIGTERM; the first one drains

A service manager should not restart after 3: the config will not get better by itself.
`

// codedError is an error that knows its exit code.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// quietError ends a command whose output has said everything already.
type quietError struct{ what string }

func (e *quietError) Error() string { return e.what }

// fail makes an error with an exit code.
func fail(code int, format string, args ...any) error {
	return &codedError{code, fmt.Errorf(format, args...)}
}

// usage makes an error about how the command was called.
func usage(format string, args ...any) error { return fail(exitUsage, format, args...) }

// quiet ends with a code and nothing more to say.
func quiet(code int) error {
	return &codedError{code, &quietError{fmt.Sprintf("exit code %d", code)}}
}

func hasCode(err error) bool {
	var coded *codedError
	return errors.As(err, &coded)
}

// codeOf finds the exit code of a command's error.
func codeOf(err error) int {
	var coded *codedError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, dedupe.ErrNotFound):
		return exitNotFound
	case storeFault(err):
		return exitStore
	}
	return exitFailed
}

// storeFault reports whether the ledger itself is what failed.
func storeFault(err error) bool {
	for _, e := range []error{dedupe.ErrLocked, dedupe.ErrNewer, dedupe.ErrDamaged, dedupe.ErrFatal, dedupe.ErrDiskLow,
		dedupe.ErrMoved, dedupe.ErrMoving, dedupe.ErrNotEqual, gateway.ErrNoLedger} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
