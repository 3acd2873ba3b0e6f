package server

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/outbound"
)

// CABundle is the pool of CAs that verify runtimes at their access URLs, in
// addition to the system's. The file is reloaded when it changes; an invalid
// file keeps the last pool in use.
type CABundle struct {
	file string
	log  *slog.Logger

	mu      sync.Mutex
	roots   *x509.CertPool
	stamp   fileStamp
	checked time.Time
}

// LoadCABundle reads the file once, so that an error is reported at startup.
func LoadCABundle(file string, log *slog.Logger) (*CABundle, error) {
	a := &CABundle{file: file, log: log}
	if err := a.load(); err != nil {
		return nil, err
	}
	return a, nil
}

// load reads the file. The stamp is taken first, so that an invalid file is
// reported once and read again after the next change.
func (a *CABundle) load() error {
	a.stamp = stampOf(a.file)
	text, err := os.ReadFile(a.file)
	if err != nil {
		return fmt.Errorf("read CA bundle of runtimes: %w", err)
	}
	// The bundle extends the system's CAs.
	roots, err := x509.SystemCertPool()
	if err != nil { // without system CAs only the bundle counts
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("CA bundle of runtimes: %s contains no PEM certificate", a.file)
	}
	a.roots = roots
	return nil
}

// get returns the current pool.
func (a *CABundle) get() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.checked) >= reloadInterval {
		a.checked = now
		if stampOf(a.file) != a.stamp {
			if err := a.load(); err != nil {
				a.log.Warn("CA bundle reload failed; keeping the old one", observe.KeyError, err)
			} else {
				a.log.Info("CA bundle reloaded", observe.KeyFile, a.file)
			}
		}
	}
	return a.roots
}

// direct sends requests to runtimes at their access URLs. A changed CA bundle
// needs a new transport: pooled connections were verified with the old one.
type direct struct {
	policy *outbound.Policy
	bundle *CABundle

	mu      sync.Mutex
	roots   *x509.CertPool
	current *http.Transport
}

// newDirect returns a direct transport; without a bundle the system's CAs
// apply.
func newDirect(policy *outbound.Policy, bundle *CABundle) *direct {
	return &direct{policy: policy, bundle: bundle}
}

// RoundTrip implements http.RoundTripper.
func (d *direct) RoundTrip(request *http.Request) (*http.Response, error) {
	return d.transport().RoundTrip(request)
}

// transport returns the transport for the current CA bundle.
func (d *direct) transport() *http.Transport {
	var roots *x509.CertPool
	if d.bundle != nil {
		roots = d.bundle.get()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil || roots != d.roots {
		if d.current != nil {
			d.current.CloseIdleConnections()
		}
		d.roots, d.current = roots, directTransport(d.policy, roots)
	}
	return d.current
}

// CloseIdleConnections closes idle connections.
func (d *direct) CloseIdleConnections() { d.transport().CloseIdleConnections() }
