package audit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// originPrefix begins the first line of a checkpoint; the log's name follows.
const originPrefix = "onceward/audit/"

// Checkpoint is a signed statement: the first Size acts of a log have this
// root. Acts before it can't be changed, removed or reordered without the root
// changing.
type Checkpoint struct {
	Log  string // name of the log: the writer in hexadecimal
	Size uint64
	Root tlog.Hash
	At   time.Time // wall clock of the signature, to the second
	Note string    // the signed note
}

// logName is the name of a writer's log.
func logName(writer uint64) string { return fmt.Sprintf("%015x", writer) }

func (c *Checkpoint) text() string {
	return originPrefix + c.Log + "\n" + strconv.FormatUint(c.Size, 10) + "\n" + base64.StdEncoding.EncodeToString(c.Root[:]) +
		"\ntime " + c.At.UTC().Format(time.RFC3339) + "\n"
}

// sign fills in the note.
func (k *Key) sign(c *Checkpoint) error {
	b, err := note.Sign(&note.Note{Text: c.text()}, k.signer)
	if err != nil {
		return fmt.Errorf("sign checkpoint: %w", err)
	}
	c.Note = string(b)
	return nil
}

// Open reads a checkpoint and checks its signature. A note that differs in any
// byte from what the gateway signed is an error.
func (k Keys) Open(signed string) (Checkpoint, error) {
	n, err := note.Open([]byte(signed), k.list)
	if unverified := (*note.UnverifiedNoteError)(nil); errors.As(err, &unverified) {
		return Checkpoint{}, errors.New("signed with none of the keys that are trusted")
	}
	if err != nil {
		return Checkpoint{}, errors.New("signature does not fit")
	}
	c, err := parseCheckpoint(n.Text)
	if err != nil {
		return c, err
	}
	if len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 0 {
		return c, errors.New("has other signatures than the gateway's one")
	}
	// Base64 leaves bits unused at its end: they, too, must be as written.
	sig, err := base64.StdEncoding.Strict().DecodeString(n.Sigs[0].Base64)
	if err != nil || signed != n.Text+"\n— "+n.Sigs[0].Name+" "+base64.StdEncoding.EncodeToString(sig)+"\n" {
		return c, errors.New("is not written as it was signed")
	}
	c.Note = signed
	return c, nil
}

var errCheckpoint = errors.New("is no checkpoint of an audit log")

// parseCheckpoint reads the text of a note, signed or not.
func parseCheckpoint(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 5 || lines[4] != "" {
		return c, errCheckpoint
	}
	var named, timed bool
	c.Log, named = strings.CutPrefix(lines[0], originPrefix)
	stamp, timed := strings.CutPrefix(lines[3], "time ")
	if !named || !timed {
		return c, errCheckpoint
	}
	if c.Size, err = strconv.ParseUint(lines[1], 10, 63); err != nil {
		return c, errCheckpoint
	}
	if c.Root, err = tlog.ParseHash(lines[2]); err != nil {
		return c, errCheckpoint
	}
	if c.At, err = time.Parse(time.RFC3339, stamp); err != nil {
		return c, errCheckpoint
	}
	if c.text() != text {
		return c, errCheckpoint
	}
	return c, nil
}

// peekCheckpoint reads a note of our own ledger without checking who signed it.
func peekCheckpoint(signed string) (Checkpoint, error) {
	text, _, ok := strings.Cut(signed, "\n\n")
	if !ok {
		return Checkpoint{}, errCheckpoint
	}
	c, err := parseCheckpoint(text + "\n")
	c.Note = signed
	return c, err
}

// SplitNotes cuts a file of signed notes, one after the other with an empty
// line between, into notes. What is left of a last note that was not written
// to its end comes back as rest.
func SplitNotes(text string) (notes []string, rest string) {
	for text != "" {
		body, after, ok := strings.Cut(text, "\n\n")
		if !ok {
			return notes, text
		}
		sig, next, ok := strings.Cut(after, "\n")
		if !ok {
			return notes, text
		}
		notes = append(notes, body+"\n\n"+sig+"\n")
		text = strings.TrimLeft(next, "\n")
	}
	return notes, ""
}
