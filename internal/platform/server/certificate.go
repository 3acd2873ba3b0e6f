package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"slipway.dev/slipway/internal/observe"
)

// reloadInterval is how often files are checked for changes.
const reloadInterval = 5 * time.Second

// Certificate is the server certificate, reloaded when its files change. A
// pair that does not match keeps the last one in use: the two files are often
// replaced one after the other.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]fileStamp
	checked time.Time
}

// fileStamp detects a replaced file.
type fileStamp struct {
	at   time.Time
	size int64
}

// LoadCertificate reads the files once, so that an error is reported at
// startup.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// load reads the pair. The stamps are taken first, so that an invalid pair is
// reported once and read again after the next change.
func (c *Certificate) load() error {
	c.stamp = c.stamps()
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("the certificate in %s and its key in %s: %w", c.certFile, c.keyFile, err)
	}
	c.current = &pair
	return nil
}

// stamps returns the stamps of both files.
func (c *Certificate) stamps() (stamps [2]fileStamp) {
	for i, name := range []string{c.certFile, c.keyFile} {
		stamps[i] = stampOf(name)
	}
	return stamps
}

// stampOf returns the stamp of a file; it is empty for a missing one.
func stampOf(name string) fileStamp {
	info, err := os.Stat(name)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info.ModTime(), info.Size()}
}

// get implements tls.Config.GetCertificate. Files are checked during
// handshakes, so no goroutine is needed.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// At most one check per interval: handshakes must stay cheap.
	if now := time.Now(); now.Sub(c.checked) >= reloadInterval {
		c.checked = now
		if c.stamps() != c.stamp {
			if err := c.load(); err != nil {
				c.log.Warn("certificate reload failed; keeping the old one", observe.KeyError, err)
			} else {
				c.log.Info("certificate reloaded", observe.KeyFile, c.certFile)
			}
		}
	}
	return c.current, nil
}
