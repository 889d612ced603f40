package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signals turns the first SIGINT or SIGTERM into the end of a context and the
// second into an exit code.
type signals struct {
	second chan int
	stop   func()
}

// watchSignals begins to watch; stop ends it and waits until it has ended.
func watchSignals(parent context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancel(parent)
	in := make(chan os.Signal, 2)
	signal.Notify(in, os.Interrupt, syscall.SIGTERM)
	s := &signals{second: make(chan int, 1)}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case sig := <-in:
				if n > 0 {
					s.second <- signalCode(sig)
					return
				}
				cancel()
			case <-quit:
				return
			}
		}
	}()
	s.stop = func() {
		signal.Stop(in)
		close(quit)
		<-ended
		cancel()
	}
	return ctx, s
}

// signalCode is what shells call the end by a signal: 128 and its number.
func signalCode(sig os.Signal) int {
	if sig == syscall.SIGTERM {
		return exitTerminated
	}
	return exitInterrupted
}
