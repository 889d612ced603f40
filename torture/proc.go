package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Proc is a gateway that is started and killed, always with the same binary,
// config file, ports and data directory. It is used from one goroutine.
type Proc struct {
	Binary string
	Config string // path of the config file
	Public string // address of the public listener
	Admin  string // address of the operator's listener
	Log    string // file that the processes' own output is appended to

	Env  []string // of the processes, beside the suite's own
	Wrap []string // a command that runs the gateway, which must leave it its process ID

	cmd  *exec.Cmd
	done chan error // receives the process's end, once
}

// errEnded says that the gateway's process ended by itself.
var errEnded = errors.New("gateway ended by itself")

// Layout says where a gateway keeps what.
type Layout struct {
	Dir  string // config, token, log: survives everything
	Data string // the ledger's directory; may be on the file system that fails

	Reserve, Ballast string // of the ledger's disk; "" is small, as the disks are
	BodySize         string // of the ledger; "" is no limit
	Store            string // the whole table of another ledger; "" is one in Data
	Token            string // file of the operator's token; "" is one in Dir
	Extra            string // more of the config: tables that follow the others
}

func (l Layout) secretFile(s Source) string { return filepath.Join(l.Dir, s.Name+".secret") }

// NewProc writes the config and the secret files of a gateway with these sources, all of
// whose targets are at targetAddr. It starts nothing.
func NewProc(binary string, at Layout, sources []Source, targetAddr string) (*Proc, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	p := &Proc{
		Binary: binary, Config: filepath.Join(at.Dir, "config.toml"), Log: filepath.Join(at.Dir, "gateway.log"),
		Public: ports[0], Admin: ports[1],
	}
	files := map[string]string{p.Config: configText(p, at, sources, targetAddr)}
	for _, s := range sources {
		files[at.secretFile(s)] = s.Secret
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("write config: %w", err)
		}
	}
	return p, nil
}

// configText keeps the ledger's disk reserve small, since the disks that
// are cut off are, and the pauses between attempts short.
func configText(p *Proc, at Layout, sources []Source, targetAddr string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen = %q\ndrain = \"5s\"\n[admin]\nlisten = %q\ntoken_file = %q\n",
		p.Public, p.Admin, cmp.Or(at.Token, filepath.Join(at.Dir, "admin.token")))
	reserve, ballast := cmp.Or(at.Reserve, "32MiB"), cmp.Or(at.Ballast, "16MiB")
	b.WriteString(cmp.Or(at.Store, fmt.Sprintf("[store]\ndriver = \"badger\"\npath = %q\nreserve = %q\nballast = %q\n", at.Data, reserve, ballast)))
	if at.BodySize != "" {
		fmt.Fprintf(&b, "body_size = %q\n", at.BodySize)
	}
	named := map[string]bool{}
	for _, s := range sources {
		fmt.Fprintf(&b, "[[source]]\nname = %q\nprovider = %q\nsecrets = [%q]\non_conflict = %q\ntargets = [%s]\n",
			s.Name, s.Provider, "${file:"+at.secretFile(s)+"}", s.OnConflict, quoted(s.Targets))
		if s.Short {
			b.WriteString("window = \"3s\"\nallow_short_window = true\n[source.retention]\nbody = \"2s\"\nmeta = \"3s\"\naudit = \"3s\"\n")
		}
		for _, t := range s.Targets {
			named[t] = true
		}
	}
	for t := range named {
		longest := "500ms"
		if t == LateTarget {
			longest = "4s" // it refuses for long, and large bodies
		}
		fmt.Fprintf(&b, "[[target]]\nname = %q\nurl = %q\ninitial = \"50ms\"\nmax = %q\ntimeout = \"10s\"\nconcurrency = 16\n"+
			// A breaker is in use, and is no excuse for what moves too late.
			"breaker = { probe = \"100ms\", probe_max = \"500ms\" }\n",
			t, "http://"+targetAddr+"/"+t, longest)
	}
	b.WriteString(at.Extra)
	return b.String()
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, ", ")
}

// Start starts the process and returns at once.
func (p *Proc) Start() error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open gateway log: %w", err)
	}
	defer log.Close() // the process has its own
	argv := append(append([]string(nil), p.Wrap...), p.Binary, "serve", "--config", p.Config)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = withParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start gateway: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	p.cmd, p.done = cmd, done
	return nil
}

// WaitReady returns when the gateway says it takes events. It fails when the
// process ends or ctx does.
func (p *Proc) WaitReady(ctx context.Context) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := client.Get("http://" + p.Public + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-p.done:
			p.done <- err
			return fmt.Errorf("wait for ready: %w: %v\n%s", errEnded, err, p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("wait for ready: %w\n%s", ctx.Err(), p.logTail())
		case <-tick.C:
		}
	}
}

// Kill ends the process with SIGKILL and waits until it is gone. A process
// that had ended by itself is an error: nothing but the kill may end it.
func (p *Proc) Kill() error {
	if p.cmd == nil {
		return nil
	}
	select {
	case err := <-p.done:
		p.cmd = nil
		return fmt.Errorf("kill: %w: %v\n%s", errEnded, err, p.logTail())
	default:
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill gateway: %w", err)
	}
	<-p.done
	p.cmd = nil
	return nil
}

// Signal sends the process a signal; nothing when there is none.
func (p *Proc) Signal(sig os.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig) // it may be gone
	}
}

// Ended waits until the process has ended by itself and says how.
func (p *Proc) Ended(ctx context.Context) (*os.ProcessState, error) {
	select {
	case <-p.done:
		st := p.cmd.ProcessState
		p.cmd = nil
		return st, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the gateway's end: %w", ctx.Err())
	}
}

// Stop ends the process with SIGTERM and waits until it is gone; it must exit
// with 0 before ctx is done. Where one that doesn't is held up stands in its log.
func (p *Proc) Stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop gateway: %w", err)
	}
	select {
	case err := <-p.done:
		p.cmd = nil
		if err != nil {
			return fmt.Errorf("stop gateway: %w\n%s", err, p.logTail())
		}
		return nil
	case <-ctx.Done():
		p.Signal(syscall.SIGQUIT)
		select {
		case <-p.done:
			p.cmd = nil
			return fmt.Errorf("stop gateway: %w", ctx.Err())
		case <-time.After(2 * time.Second):
			return errors.Join(fmt.Errorf("stop gateway: %w", ctx.Err()), p.Kill())
		}
	}
}

// Command runs one of the gateway's commands against the running process and
// returns what it prints. Any exit code but 0 is an error.
func (p *Proc) Command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.Binary, append(args, "--config", p.Config)...)
	cmd.Env = append(os.Environ(), p.Env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("onceward %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}

// unreachable is the exit code of a command that the gateway did not answer.
const unreachable = 8

// Ask runs a command that changes nothing, again when the gateway did not answer
// in time, until ctx ends.
func (p *Proc) Ask(ctx context.Context, args ...string) (out []byte, err error) {
	for {
		out, err = p.Command(ctx, args...)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != unreachable || Wait(ctx, 200*time.Millisecond) != nil {
			return out, err
		}
	}
}

// logTail is the end of the processes' own output, for error texts.
func (p *Proc) logTail() string {
	f, err := os.Open(p.Log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil {
		f.Seek(max(0, st.Size()-2000), io.SeekStart)
	}
	b, _ := io.ReadAll(f)
	return string(b)
}

// givenPorts are those of gateways that may be down now and start again.
var givenPorts sync.Map

// givenOut notes a port as given out, and reports whether it was already: here, or
// by another process of the runner's.
func givenOut(addr string) bool {
	if _, was := givenPorts.LoadOrStore(addr, true); was {
		return true
	}
	dir := os.Getenv(buildsEnv)
	if dir == "" {
		return false
	}
	f, err := os.OpenFile(filepath.Join(dir, "port-"+addr), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Is(err, fs.ErrExist)
	}
	f.Close()
	return false
}

// freePorts finds loopback addresses below the range that outgoing
// connections take their ports from: a port that is free now stays free while
// the gateway is down.
func freePorts(n int) ([]string, error) {
	var out []string
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))
		if givenOut(addr) {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		defer l.Close()
		if out = append(out, addr); len(out) == n {
			return out, nil
		}
	}
	return nil, errors.New("find free ports: none of 1000 tried was free")
}
