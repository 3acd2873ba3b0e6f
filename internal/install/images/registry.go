package images

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

const (
	// maxFile bounds a file of credentials or CA certificates.
	maxFile = 1 << 20
	// responseTimeout bounds the time until the header of a response. The body has
	// no bound: layers take as long as they need.
	responseTimeout = time.Minute
	// maxManifest bounds a manifest or index, which is held in memory.
	maxManifest = 4 << 20
)

// PlainHTTP selects registries that are contacted without TLS.
type PlainHTTP int

// The choices.
const (
	// PlainNever is TLS everywhere.
	PlainNever PlainHTTP = iota
	// PlainLoopback is TLS everywhere but on this machine.
	PlainLoopback
	// PlainAlways uses no TLS: credentials can be read on the way.
	PlainAlways
)

// Access is how registries are reached.
type Access struct {
	// AuthFile has credentials in the format of Docker's config.json. When it is
	// empty, it is Docker's own file, if there is one.
	AuthFile string
	// CAFile has authorities in PEM, beside those of the system.
	CAFile string
	Plain  PlainHTTP
	// Agent is the user agent, for the log of the registry.
	Agent string
}

// Registries is a client for registries. It is safe for concurrent use.
type Registries struct {
	client *auth.Client
	plain  PlainHTTP
}

// Open reads the files and returns the client.
func (a Access) Open() (*Registries, error) {
	roots, err := a.roots()
	if err != nil {
		return nil, err
	}
	store, err := a.credentials()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 30 * time.Second, ResponseHeaderTimeout: responseTimeout, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	// The transport retries with backoff when a registry is busy, and the cache
	// keeps its tokens by scope.
	client := &auth.Client{Client: &http.Client{Transport: retry.NewTransport(transport)}, Cache: auth.NewCache(), Credential: credentials.Credential(store)}
	if a.Agent != "" {
		client.SetUserAgent(a.Agent)
	}
	return &Registries{client: client, plain: a.Plain}, nil
}

// roots returns the system's roots with those of the file.
func (a Access) roots() (*x509.CertPool, error) {
	if a.CAFile == "" {
		return nil, nil
	}
	text, err := readBounded(a.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the authorities: %w", err)
	}
	roots, err := x509.SystemCertPool()
	// Without roots of the system, those of the file are the only ones.
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", a.CAFile)
	}
	return roots, nil
}

// credentials reads the credentials file. Helpers that it names are not run:
// they are external programs.
func (a Access) credentials() (credentials.Store, error) {
	// A file that the user names has to exist. Docker's own is optional.
	place, needed := a.AuthFile, true
	if place == "" {
		place, needed = dockerFile(), false
	}
	text, err := readBounded(place)
	if errors.Is(err, os.ErrNotExist) && !needed {
		return credentials.NewMemoryStore(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	store, err := credentials.NewMemoryStoreFromDockerConfig(text)
	if err != nil {
		// The error of the decoder may have part of the file in it.
		return nil, fmt.Errorf("%s is no file of credentials as Docker writes it", place)
	}
	return store, nil
}

// dockerFile returns the path of Docker's credentials.
func dockerFile() string {
	folder := os.Getenv("DOCKER_CONFIG")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		folder = filepath.Join(home, ".docker")
	}
	return filepath.Join(folder, "config.json")
}

// readBounded reads a file of at most maxFile bytes.
func readBounded(place string) ([]byte, error) {
	// The path is empty if there is no home directory.
	if place == "" {
		return nil, os.ErrNotExist
	}
	file, err := os.Open(place)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	// One byte more than the limit is read, so that a larger file is refused
	// and not truncated.
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", place, maxFile)
	}
	return text, nil
}

// repository returns the client of a reference's repository.
func (r *Registries) repository(of registry.Reference) *remote.Repository {
	return &remote.Repository{
		Client: r.client, Reference: of, PlainHTTP: r.withoutTLS(of.Host()), MaxMetadataBytes: maxManifest,
		SkipReferrersGC: true,
	}
}

// withoutTLS reports whether a host is contacted without TLS.
func (r *Registries) withoutTLS(host string) bool {
	switch r.plain {
	case PlainAlways:
		return true
	case PlainLoopback:
		return loopback(host)
	case PlainNever:
	}
	return false
}

// loopback reports whether a host is this machine. Only localhost and literal
// addresses count: a name of DNS may resolve to another host later.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// Digest returns the digest of an image in a registry.
func (r *Registries) Digest(ctx context.Context, reference string) (string, error) {
	parsed, err := parse(reference)
	if err != nil {
		return "", err
	}
	found, err := r.repository(parsed).Resolve(ctx, parsed.Reference)
	if err != nil {
		return "", explain("find "+reference, err)
	}
	return found.Digest.String(), nil
}
