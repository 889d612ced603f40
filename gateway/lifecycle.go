package gateway

import (
	"context"
	"errors"
	"fmt"
)

// service is one running part.
type service struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read only after done is closed
}

// stack holds the running parts in the order of their start. It is used by
// one goroutine.
type stack struct {
	base     context.Context // outlives the caller's: parts end one by one
	services []*service
	ended    chan *service // a part that ended, asked or not
}

func newStack(ctx context.Context) *stack {
	return &stack{base: context.WithoutCancel(ctx), ended: make(chan *service, 16)}
}

// start runs a part on a goroutine that stop waits for.
func (s *stack) start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(s.base)
	svc := &service{name: name, cancel: cancel, done: make(chan struct{})}
	s.services = append(s.services, svc)
	go func() {
		svc.err = run(ctx)
		close(svc.done)
		s.ended <- svc
	}()
}

// stop tells the named parts to end, in this order, then waits for all of
// them. A part that isn't running is passed over.
func (s *stack) stop(names ...string) error {
	var stopping []*service
	for _, name := range names {
		for _, svc := range s.services {
			if svc.name == name {
				svc.cancel()
				stopping = append(stopping, svc)
			}
		}
	}
	var errs []error
	for _, svc := range stopping {
		<-svc.done
		errs = append(errs, svc.failure())
	}
	return errors.Join(errs...)
}

// failure is what a part ended with, nil when it only did as it was told.
func (svc *service) failure() error {
	if svc.err == nil || errors.Is(svc.err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", svc.name, svc.err)
}
