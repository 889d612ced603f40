package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// withParent has the kernel end the gateway when the suite itself is killed.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// apart starts a test of the runner's in a session of its own: a terminal
// interrupts the runner alone, and the scheduler is as fair to each test as to
// the whole of another session.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// unprivileged is for a program that refuses to run as root; it owns dir from
// then on. The kernel ends it with sig when the suite itself is killed.
func unprivileged(dir string, sig syscall.Signal) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: sig}
	if os.Geteuid() != 0 {
		return attr, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("find a user without privileges: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the user's ID: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the user's group: %w", err)
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, os.Chown(dir, int(uid), int(gid))
}
