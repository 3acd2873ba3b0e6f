package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/secret"
)

// Variables that choose the platform, its key, the runtime and the file.
const (
	configVariable  = "SLIPWAY_CONFIG"
	urlVariable     = "SLIPWAY_URL"
	runtimeVariable = "SLIPWAY_RUNTIME"
)

const (
	// mostContextBytes bounds the file of contexts.
	mostContextBytes = 1 << 20
	// contextLockTimeout is how long another command may hold the file.
	contextLockTimeout = 10 * time.Second
	contextLockPause   = 20 * time.Millisecond
)

// platformContext is a platform with who one is there.
type platformContext struct {
	Name      string
	URL       string
	Account   string
	AccountID string
	User      string
	Key       secret.Text
	// KeyID is the key's name for the platform; KeyMade tells that login made it,
	// so that logout may revoke it.
	KeyID      string
	KeyMade    bool
	KeyExpires time.Time
	// CAFile has the authorities of the platform; empty is the system's.
	CAFile string
	// Runtime is asked when none is named.
	Runtime string
}

// contextBook is the contexts of a person, and which one is current.
type contextBook struct {
	Current  string
	Contexts []platformContext
}

// contextEntry and contextFile are the form of the file.
type contextEntry struct {
	Name       string     `json:"name"`
	URL        string     `json:"url"`
	Account    string     `json:"account,omitempty"`
	AccountID  string     `json:"accountId,omitempty"`
	User       string     `json:"user,omitempty"`
	Key        string     `json:"key,omitempty"`
	KeyID      string     `json:"keyId,omitempty"`
	KeyMade    bool       `json:"keyMadeByLogin,omitempty"`
	KeyExpires *time.Time `json:"keyExpires,omitempty"`
	CAFile     string     `json:"caFile,omitempty"`
	Runtime    string     `json:"runtime,omitempty"`
}

type contextFile struct {
	Current  string         `json:"currentContext,omitempty"`
	Contexts []contextEntry `json:"contexts"`
}

// contextPath is where the contexts of this person are.
func contextPath() (string, error) {
	if given := os.Getenv(configVariable); given != "" {
		return filepath.Abs(given)
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "slipway", "config.yaml"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("where to keep contexts: %w: set %s", err, configVariable)
	}
	return filepath.Join(home, ".config", "slipway", "config.yaml"), nil
}

// readContexts reads the contexts; none when there is no file.
func readContexts() (*contextBook, error) {
	path, err := contextPath()
	if err != nil {
		return nil, err
	}
	return readContextsAt(path)
}

func readContextsAt(path string) (*contextBook, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &contextBook{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	defer func() { _ = file.Close() }()
	if err := privateFile(file); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, mostContextBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	book, err := parseContexts(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return book, nil
}

// privateFile refuses a file with keys that somebody else has, or may read or
// change.
func privateFile(file *os.File) error {
	var found unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &found); err != nil {
		return fmt.Errorf("look at %s: %w", file.Name(), err)
	}
	switch {
	case found.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a file: set %s to one", file.Name(), configVariable)
	case int(found.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user, and their keys are not yours to use: set %s to a file of your own", file.Name(), configVariable)
	case found.Mode&0o077 != 0:
		return fmt.Errorf("other users may read or change %s, which has keys: run chmod 600 %s, and make new keys if that was so for long", file.Name(), file.Name())
	}
	return nil
}

// parseContexts reads the text of the file. No error shows what is in it.
func parseContexts(text []byte) (*contextBook, error) {
	if len(text) > mostContextBytes {
		return nil, fmt.Errorf("it has more than %d bytes, which no list of contexts has", mostContextBytes)
	}
	var given contextFile
	if err := yaml.UnmarshalStrict(text, &given); err != nil {
		return nil, errors.New("it is not a list of contexts in YAML, or was written by a newer program: correct it, or delete it and run slipway login")
	}
	book := &contextBook{Current: given.Current}
	for i, entry := range given.Contexts {
		if entry.Name == "" || book.find(entry.Name) != nil {
			return nil, fmt.Errorf("context %d has no name, or that of another: correct it", i+1)
		}
		if _, err := platformAddress(entry.URL); err != nil {
			return nil, fmt.Errorf("context %d: %w", i+1, err)
		}
		one := platformContext{
			Name: entry.Name, URL: entry.URL, Account: entry.Account, AccountID: entry.AccountID, User: entry.User,
			Key: secret.New(entry.Key), KeyID: entry.KeyID, KeyMade: entry.KeyMade, CAFile: entry.CAFile, Runtime: entry.Runtime,
		}
		if entry.KeyExpires != nil {
			one.KeyExpires = *entry.KeyExpires
		}
		book.Contexts = append(book.Contexts, one)
	}
	return book, nil
}

// text is what the file has.
func (b *contextBook) text() ([]byte, error) {
	written := contextFile{Current: b.Current, Contexts: []contextEntry{}}
	for _, one := range b.Contexts {
		entry := contextEntry{
			Name: one.Name, URL: one.URL, Account: one.Account, AccountID: one.AccountID, User: one.User,
			Key: one.Key.Reveal(), KeyID: one.KeyID, KeyMade: one.KeyMade, CAFile: one.CAFile, Runtime: one.Runtime,
		}
		if !one.KeyExpires.IsZero() {
			entry.KeyExpires = &one.KeyExpires
		}
		written.Contexts = append(written.Contexts, entry)
	}
	return yaml.Marshal(written)
}

func (b *contextBook) find(name string) *platformContext {
	at := slices.IndexFunc(b.Contexts, func(one platformContext) bool { return one.Name == name })
	if at < 0 {
		return nil
	}
	return &b.Contexts[at]
}

// put adds a context, or replaces the one of its name.
func (b *contextBook) put(one platformContext) {
	if found := b.find(one.Name); found != nil {
		*found = one
		return
	}
	b.Contexts = append(b.Contexts, one)
}

// remove forgets a context.
func (b *contextBook) remove(name string) {
	b.Contexts = slices.DeleteFunc(b.Contexts, func(one platformContext) bool { return one.Name == name })
	if b.Current == name {
		b.Current = ""
	}
}

// changeContexts reads the contexts, has them changed and writes them, while no
// other command does. What is there before the file is complete stays.
func changeContexts(ctx context.Context, change func(*contextBook) error) error {
	path, err := contextPath()
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link stays one
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	unlock, err := lockContexts(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	book, err := readContextsAt(path)
	if err != nil {
		return err
	}
	if err := change(book); err != nil {
		return err
	}
	text, err := book.text()
	if err != nil {
		return err
	}
	return writePrivate(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// lockContexts takes the lock of the file.
func lockContexts(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the contexts: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, contextLockTimeout)
	defer cancel()
	again := time.NewTicker(contextLockPause)
	defer again.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("lock the contexts: %w", err)
		}
		select {
		case <-again.C:
		case <-bounded.Done():
			_ = file.Close()
			return nil, fmt.Errorf("another command changes the contexts for longer than %s: end it, and try again", contextLockTimeout)
		}
	}
}
