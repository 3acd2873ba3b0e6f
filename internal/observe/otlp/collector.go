// Package otlp is the way to an OpenTelemetry collector: its address and
// credentials, which the exporters share, and an exporter of log records.
//
// It promises that credentials are sent to the configured address only, that
// errors contain neither the address nor the headers, and that an exporter never
// blocks its callers. It refuses an address with a user, a query or a fragment.
// Why log records are sent without OpenTelemetry's SDK is in decision 0033.
package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"slipway.dev/slipway/internal/secret"
)

// Timeout bounds one export.
const Timeout = 10 * time.Second

// Collector is a collector that receives OTLP over HTTP.
type Collector struct {
	// Endpoint is its URL. Without a path it is the default one of the signal.
	Endpoint string
	// Headers are sent with every batch, as name=value pairs with commas between.
	Headers secret.Text
	TLS     TLS
}

// TLS is how the collector and its client authenticate each other.
type TLS struct {
	// CA is a PEM file with the authorities of the collector; empty means the
	// system's.
	CA string
	// Cert and Key are PEM files of the client certificate; both or neither.
	Cert, Key string
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
}

// Connection is a collector with its files read and its texts parsed.
type Connection struct {
	URL     string
	Headers map[string]string
	Client  *http.Client
}

// Connect validates the settings. It does not contact the collector. The path is
// that of the signal, such as /v1/traces.
func (c Collector) Connect(path string) (Connection, error) {
	endpoint, err := c.url(path)
	if err != nil {
		return Connection{}, err
	}
	headers, err := parseHeaders(c.Headers)
	if err != nil {
		return Connection{}, err
	}
	config, err := c.TLS.config()
	if err != nil {
		return Connection{}, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	// Exports are sequential, so few connections are needed.
	transport.MaxIdleConnsPerHost = 2
	return Connection{URL: endpoint, Headers: headers, Client: &http.Client{
		Transport: transport,
		Timeout:   Timeout,
		// A redirect would take the headers with the credentials along.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// url validates the endpoint. The error does not show it: a URL can contain a
// password.
func (c Collector) url(path string) (string, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("the endpoint is not a URL such as https://collector.example.com:4318")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("the endpoint has a user, a query or a fragment: put credentials into the headers")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = path
	}
	return u.String(), nil
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
			return nil, fmt.Errorf("header number %d is not of the form name=value", i+1)
		}
		headers[name] = value
	}
	return headers, nil
}
