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

// certificateEvery is how often it is looked whether the files have changed.
const certificateEvery = 5 * time.Second

// Certificate is the certificate of the server, read again when its files change.
// Files that do not fit each other keep the last one in use.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]fileStamp
	looked  time.Time
}

// fileStamp tells that a file was replaced.
type fileStamp struct {
	at   time.Time
	size int64
}

// LoadCertificate reads the files once, so that a mistake shows at the start.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Certificate) load() error {
	// A pair that does not fit is complained about once; it is read again when one of
	// the files changes again.
	c.stamp = c.stamps()
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("the certificate in %s and its key in %s: %w", c.certFile, c.keyFile, err)
	}
	c.current = &pair
	return nil
}

func (c *Certificate) stamps() (stamps [2]fileStamp) {
	for i, name := range []string{c.certFile, c.keyFile} {
		stamps[i] = stampOf(name)
	}
	return stamps
}

// stampOf is that of a file; of one that is not there it is empty.
func stampOf(name string) fileStamp {
	info, err := os.Stat(name)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info.ModTime(), info.Size()}
}

// get is the certificate of a handshake.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= certificateEvery {
		c.looked = now
		if c.stamps() != c.stamp {
			if err := c.load(); err != nil {
				c.log.Warn("the certificate cannot be read anew: the old one stays", observe.KeyError, err)
			} else {
				c.log.Info("the certificate was read anew", observe.KeyFile, c.certFile)
			}
		}
	}
	return c.current, nil
}
