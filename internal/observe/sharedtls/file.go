package sharedtls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// maxFile bounds a file with a secret.
	maxFile = 4 << 10
	// fileAge is how long the content of a file is cached.
	fileAge = 5 * time.Second
)

// ReadSecret reads a secret from a file and trims white space.
func ReadSecret(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return []byte(strings.TrimSpace(string(text))), nil
}

// ServerFromFile returns the configuration of the listening side with the secret in
// a file. The file may appear later and may change, as with a Secret that is
// mounted into a Pod. Without a file every handshake fails.
func ServerFromFile(path, purpose string) *tls.Config {
	f := &fileConfig{path: path, purpose: purpose}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current(time.Now()) },
	}
}

// fileConfig caches the configuration for fileAge, so that a flood of handshakes
// does not read the disk each time.
type fileConfig struct {
	path, purpose string

	mu     sync.Mutex
	readAt time.Time
	secret string
	config *tls.Config
	err    error
}

func (f *fileConfig) current(now time.Time) (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.readAt.IsZero() && now.Sub(f.readAt) < fileAge {
		return f.config, f.err
	}
	f.readAt = now
	secret, err := ReadSecret(f.path)
	switch {
	case err != nil:
		f.config, f.secret, f.err = nil, "", errors.New("the secret cannot be read")
	case string(secret) != f.secret || f.config == nil:
		f.secret = string(secret)
		f.config, f.err = Server(secret, f.purpose)
	}
	return f.config, f.err
}
