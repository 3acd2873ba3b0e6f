package server

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"slipway.dev/slipway/internal/observe"
)

// Authorities may vouch for runtimes at their access URLs, beside those of the system.
// Their file is read again when it changes; one without a certificate keeps the last
// in use.
type Authorities struct {
	file string
	log  *slog.Logger

	mu     sync.Mutex
	roots  *x509.CertPool
	stamp  fileStamp
	looked time.Time
}

// LoadAuthorities reads the file once, so that a mistake shows at the start.
func LoadAuthorities(file string, log *slog.Logger) (*Authorities, error) {
	a := &Authorities{file: file, log: log}
	if err := a.load(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Authorities) load() error {
	// A file that is no good is complained about once; it is read again when it changes
	// again.
	a.stamp = stampOf(a.file)
	text, err := os.ReadFile(a.file)
	if err != nil {
		return fmt.Errorf("the authorities of runtimes: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil { // a machine without authorities has none but these
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("the authorities of runtimes: %s has no certificate in PEM", a.file)
	}
	a.roots = roots
	return nil
}

// get are the authorities that count now.
func (a *Authorities) get() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.looked) >= certificateEvery {
		a.looked = now
		if stampOf(a.file) != a.stamp {
			if err := a.load(); err != nil {
				a.log.Warn("the authorities of runtimes cannot be read anew: the old ones stay", observe.KeyError, err)
			} else {
				a.log.Info("the authorities of runtimes were read anew", observe.KeyFile, a.file)
			}
		}
	}
	return a.roots
}

// direct reaches runtimes at their access URLs, with the authorities of now: others
// need connections of their own.
type direct struct {
	public      *url.URL
	authorities *Authorities

	mu      sync.Mutex
	roots   *x509.CertPool
	current *http.Transport
}

// newDirect is the way to runtimes; without authorities those of the system count.
func newDirect(public *url.URL, authorities *Authorities) *direct {
	return &direct{public: public, authorities: authorities}
}

// RoundTrip sends a request to a runtime.
func (d *direct) RoundTrip(request *http.Request) (*http.Response, error) {
	return d.transport().RoundTrip(request)
}

func (d *direct) transport() *http.Transport {
	var roots *x509.CertPool
	if d.authorities != nil {
		roots = d.authorities.get()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil || roots != d.roots {
		if d.current != nil {
			d.current.CloseIdleConnections()
		}
		d.roots, d.current = roots, directTransport(d.public, roots)
	}
	return d.current
}

// CloseIdleConnections lets go of connections that nobody uses.
func (d *direct) CloseIdleConnections() { d.transport().CloseIdleConnections() }
