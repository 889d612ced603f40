package main

import "syscall"

// withParent has the kernel end the gateway when the suite itself is killed.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// apart starts a test of the runner's in a session of its own: a terminal
// interrupts the runner alone, and the scheduler is as fair to each test as to
// the whole of another session.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
