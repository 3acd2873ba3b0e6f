package tracing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"

	"slipway.dev/slipway/internal/secret"
)

// logPeriod is the least time between two messages about a collector that does not
// accept spans.
const logPeriod = time.Minute

// TLS is how collector and edge authenticate each other.
type TLS struct {
	// CA is a PEM file with the authorities of the collector; empty means the
	// system's.
	CA string
	// Cert and Key are PEM files of the edge's client certificate; both or neither.
	Cert, Key string
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
}

// exporter counts exported spans and logs failures. It never returns an error,
// because the SDK would write it to standard error.
type exporter struct {
	sdktrace.SpanExporter
	client       *http.Client
	log          *slog.Logger
	sent, failed counted
	// life ends with cut, which cancels the export that runs.
	life context.Context
	cut  context.CancelFunc

	mu       sync.Mutex
	loggedAt time.Time
}

// ExportSpans implements [sdktrace.SpanExporter]: it sends one batch.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	// cut has to end an export that waits for a collector.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.sent.Add(uint64(len(spans)))
		return nil
	}
	e.failed.Add(uint64(len(spans)))
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); now.Sub(e.loggedAt) >= logPeriod {
		e.loggedAt = now
		e.log.Warn("export of spans failed: check tracing.otlp.http.endpoint", "spans", len(spans), "error", err)
	}
	return nil
}

// newClient returns the HTTP client for the collector. It follows no redirect: the
// headers with the credentials would go along.
func newClient(options TLS) (*http.Client, error) {
	config, err := options.config()
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	// Exports are sequential, so few connections are needed.
	transport.MaxIdleConnsPerHost = 2
	return &http.Client{
		Transport:     transport,
		Timeout:       exportTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// config reads the files once, at the start.
func (t TLS) config() (*tls.Config, error) {
	// The SDK has no defaults of its own for TLS.
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CA != "" {
		bundle, err := readPEM(t.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, fmt.Errorf("%s has no certificate in it", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("a certificate and its key go together: give both or neither")
	}
	if t.Cert != "" {
		chain, err := readPEM(t.Cert)
		if err != nil {
			return nil, err
		}
		key, err := readPEM(t.Key)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", t.Cert, t.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// readPEM reads a file of at most 1 MiB.
func readPEM(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// A path may name a device or a huge file.
	const most = 1 << 20
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return text, err
}

// collectorURL validates the endpoint. The error does not show it: a URL can contain
// a password.
func collectorURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("tracing: the endpoint is not a URL such as https://collector.example.com:4318")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("tracing: the endpoint has a user, a query or a fragment: put credentials into the headers")
	}
	// The default path of OTLP over HTTP.
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// parseHeaders parses name=value pairs. Its errors do not show values.
func parseHeaders(text secret.Text) (map[string]string, error) {
	headers := map[string]string{}
	if text.IsZero() {
		return headers, nil
	}
	for i, pair := range strings.Split(text.Reveal(), ",") {
		name, value, found := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("tracing: header number %d is not of the form name=value", i+1)
		}
		headers[name] = value
	}
	return headers, nil
}

// parsePairs parses name=value pairs.
func parsePairs(list []string) ([][2]string, error) {
	var pairs [][2]string
	for _, item := range list {
		name, value, found := strings.Cut(item, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not of the form name=value", item)
		}
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, nil
}
