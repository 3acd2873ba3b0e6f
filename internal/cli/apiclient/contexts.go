package apiclient

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

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/secret"
)

// ShownContext is a context without its key. It is a type of its own, so that a
// field that is added to Context is not printed by accident.
type ShownContext struct {
	Current bool   `json:"current"`
	Name    string `json:"name"`
	URL     string `json:"url"`
	Account string `json:"account"`
	User    string `json:"user"`
	Runtime string `json:"runtime"`
	// KeyExpires is empty if the key does not expire.
	KeyExpires string `json:"keyExpires"`
	CAFile     string `json:"caFile,omitempty"`
}

// ShownContexts returns the contexts without their keys, for output and for the
// archive of slipway doctor.
func ShownContexts(book *Contexts) []ShownContext {
	shown := []ShownContext{}
	for _, one := range book.Entries {
		expires := ""
		if !one.KeyExpires.IsZero() {
			expires = one.KeyExpires.UTC().Format(time.RFC3339)
		}
		shown = append(shown, ShownContext{
			Current: one.Name == book.Current, Name: one.Name, URL: one.URL, Account: one.Account, User: one.User,
			Runtime: one.Runtime, KeyExpires: expires, CAFile: one.CAFile,
		})
	}
	return shown
}

// NoContext returns the usage error for a context that does not exist.
func NoContext(name string) error {
	return exit.UsageError{Err: fmt.Errorf("there is no context %s: slipway config list shows those that there are", printer.Printable(name))}
}

// Variables that choose the platform, its key, the runtime and the file.
const (
	ConfigVariable  = "SLIPWAY_CONFIG"
	UrlVariable     = "SLIPWAY_URL"
	RuntimeVariable = "SLIPWAY_RUNTIME"
)

const (
	// maxContextBytes bounds the file, which has a few hundred bytes per
	// context.
	maxContextBytes = 1 << 20
	// contextLockTimeout is how long another command may hold the lock of the
	// file, and contextLockPause how often the lock is tried.
	contextLockTimeout = 10 * time.Second
	contextLockPause   = 20 * time.Millisecond
)

// Context is a platform with the credentials of one user there.
type Context struct {
	Name      string
	URL       string
	Account   string
	AccountID string
	User      string
	Key       secret.Text
	// KeyID identifies the key at the platform. KeyMade is set if login created
	// the key, so that logout may revoke it.
	KeyID      string
	KeyMade    bool
	KeyExpires time.Time
	// CAFile has the CA certificates of the platform; empty means the roots of
	// the system.
	CAFile string
	// Runtime is the default for --runtime.
	Runtime string
}

// Contexts are the platforms that the user has signed in to, and which one is
// current. It is the decoded file; changes are made in UpdateContexts alone.
type Contexts struct {
	Current string
	Entries []Context
}

// fileEntry is a Context as the file has it. The key is plain text here and a
// secret.Text everywhere else, so that only this type can write it.
type fileEntry struct {
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

// fileForm is the file: YAML, decoded strictly, so that a misspelled field is
// an error and not a context without a key.
type fileForm struct {
	Current  string      `json:"currentContext,omitempty"`
	Contexts []fileEntry `json:"contexts"`
}

// contextPath returns the path of the file: $SLIPWAY_CONFIG, or the XDG
// location.
func contextPath() (string, error) {
	if given := os.Getenv(ConfigVariable); given != "" {
		return filepath.Abs(given)
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "slipway", "config.yaml"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("where to keep contexts: %w: set %s", err, ConfigVariable)
	}
	return filepath.Join(home, ".config", "slipway", "config.yaml"), nil
}

// ReadContexts reads the contexts; there are none without a file.
func ReadContexts() (*Contexts, error) {
	path, err := contextPath()
	if err != nil {
		return nil, err
	}
	return readContextsAt(path)
}

// readContextsAt reads the file at a path. It refuses a file that is not
// private before it reads a byte of it.
func readContextsAt(path string) (*Contexts, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Contexts{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	defer func() { _ = file.Close() }()
	if err := privateFile(file); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxContextBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	book, err := parseContexts(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return book, nil
}

// privateFile refuses a file that another user owns, may read or may change: it
// has keys. The check is on the open file, so that the path cannot be exchanged
// in between.
func privateFile(file *os.File) error {
	var found unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &found); err != nil {
		return fmt.Errorf("look at %s: %w", file.Name(), err)
	}
	switch {
	case found.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a file: set %s to one", file.Name(), ConfigVariable)
	case int(found.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user, and their keys are not yours to use: set %s to a file of your own", file.Name(), ConfigVariable)
	case found.Mode&0o077 != 0:
		return fmt.Errorf("other users may read or change %s, which has keys: run chmod 600 %s, and make new keys if that was so for long", file.Name(), file.Name())
	}
	return nil
}

// parseContexts decodes the file. Errors do not quote it, because it has keys
// in it.
func parseContexts(text []byte) (*Contexts, error) {
	if len(text) > maxContextBytes {
		return nil, fmt.Errorf("it has more than %d bytes, which no list of contexts has", maxContextBytes)
	}
	var given fileForm
	if err := yaml.UnmarshalStrict(text, &given); err != nil {
		return nil, errors.New("it is not a list of contexts in YAML, or was written by a newer program: correct it, or delete it and run slipway login URL")
	}
	book := &Contexts{Current: given.Current}
	for i, entry := range given.Contexts {
		if entry.Name == "" || book.Find(entry.Name) != nil {
			return nil, fmt.Errorf("context %d has no name, or that of another: correct it", i+1)
		}
		if _, err := ParseURL(entry.URL); err != nil {
			return nil, fmt.Errorf("context %d: %w", i+1, err)
		}
		one := Context{
			Name: entry.Name, URL: entry.URL, Account: entry.Account, AccountID: entry.AccountID, User: entry.User,
			Key: secret.New(entry.Key), KeyID: entry.KeyID, KeyMade: entry.KeyMade, CAFile: entry.CAFile, Runtime: entry.Runtime,
		}
		if entry.KeyExpires != nil {
			one.KeyExpires = *entry.KeyExpires
		}
		book.Entries = append(book.Entries, one)
	}
	return book, nil
}

// text encodes the file, with the keys in plain text. Its result goes to a
// private file and nowhere else.
func (b *Contexts) text() ([]byte, error) {
	written := fileForm{Current: b.Current, Contexts: []fileEntry{}}
	for _, one := range b.Entries {
		entry := fileEntry{
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

// Find returns the context with a name, or nil. The result points into the
// list.
func (b *Contexts) Find(name string) *Context {
	at := slices.IndexFunc(b.Entries, func(one Context) bool { return one.Name == name })
	if at < 0 {
		return nil
	}
	return &b.Entries[at]
}

// Put adds a context, or replaces the one with the same name.
func (b *Contexts) Put(one Context) {
	if found := b.Find(one.Name); found != nil {
		*found = one
		return
	}
	b.Entries = append(b.Entries, one)
}

// Remove removes a context. If it was current, no context is.
func (b *Contexts) Remove(name string) {
	b.Entries = slices.DeleteFunc(b.Entries, func(one Context) bool { return one.Name == name })
	if b.Current == name {
		b.Current = ""
	}
}

// UpdateContexts reads the contexts, applies change, and writes them back,
// under a file lock. The new file replaces the old one only when it is
// complete, and an error of change leaves it as it was.
func UpdateContexts(ctx context.Context, change func(*Contexts) error) error {
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
	// The lock is a file beside the list: the list itself is replaced by a
	// rename, and a lock on it would be on the old inode.
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
	return files.WritePrivate(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// lockContexts takes the lock of the file. flock has no timeout of its own, so
// it is tried at an interval until contextLockTimeout. Closing the file
// releases the lock, and so does the end of the process.
func lockContexts(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the contexts: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, contextLockTimeout)
	defer cancel()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("lock the contexts: %w", err)
		}
		if backoff.Sleep(bounded, contextLockPause) != nil {
			_ = file.Close()
			return nil, fmt.Errorf("another command changes the contexts for longer than %s: end it, and try again", contextLockTimeout)
		}
	}
}
