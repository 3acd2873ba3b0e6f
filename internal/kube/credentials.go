package kube

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"slipway.dev/slipway/internal/secret"
)

// The bounds of the files that are read, far beyond what they need.
const (
	nameLimit        = 1 << 10
	tokenLimit       = 64 << 10
	authoritiesLimit = 4 << 20
)

// readKubeconfig returns the configuration and namespace of the current context of
// a kubeconfig file. Several files are merged as kubectl merges them: those that
// exist, where the first value wins.
func readKubeconfig(path string) (*rest.Config, string, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	if files := filepath.SplitList(path); len(files) > 1 {
		rules = &clientcmd.ClientConfigLoadingRules{Precedence: files}
	}
	loaded, err := rules.Load()
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	if clientcmdapi.IsConfigEmpty(loaded) {
		return nil, "", fmt.Errorf("read kubeconfig %s: it names no cluster", path)
	}
	context := clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{})
	config, err := context.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	namespace, _, err := context.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	return config, namespace, nil
}

// readToken distinguishes a token from the path of a file with one. Its errors do
// not contain the text, which may be a token after all.
func readToken(token secret.Text) (value, file string, err error) {
	text := strings.TrimSpace(token.Reveal())
	if info, err := os.Stat(text); err == nil && info.Mode().IsRegular() {
		if err := checkTokenFile(text); err != nil {
			return "", "", fmt.Errorf("read the file of the token: %w", err)
		}
		return "", text, nil
	}
	if strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") {
		return "", "", errors.New("the token is the path of a file, and there is no such file")
	}
	return text, "", checkToken(text)
}

// checkTokenFile validates a token file at the start, where the error can name it;
// client-go reads the file later and again.
func checkTokenFile(path string) error {
	text, err := readBounded(path, tokenLimit)
	if err != nil {
		return err
	}
	if err := checkToken(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// checkToken refuses characters that a header cannot carry.
func checkToken(text string) error {
	if text == "" {
		return errors.New("the token is empty")
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return errors.New("the token has spaces, line breaks or other characters that no token has")
		}
	}
	return nil
}

// checkAuthorities checks that a file has at least one certificate: client-go
// would fall back to an empty pool and fail each handshake.
func checkAuthorities(path string) error {
	text, err := readBounded(path, authoritiesLimit)
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(text)) {
		return fmt.Errorf("%s has no certificate: it must be PEM, with BEGIN CERTIFICATE", path)
	}
	return nil
}

// readBounded reads a small file and trims white space.
func readBounded(path string, limit int64) (string, error) {
	// Checked before opening: to open a named pipe would block until a writer comes.
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", &fs.PathError{Op: "read", Path: path, Err: errors.New("it is not a regular file")}
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return "", err
	}
	if int64(len(content)) > limit {
		return "", fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return strings.TrimSpace(string(content)), nil
}

// checkEndpoint validates the URL of an API server. Its errors do not quote a URL
// with a user name, which may hold a password.
func checkEndpoint(endpoint string) error {
	parsed, err := url.Parse(endpoint)
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http":
		return errors.New("the endpoint is not the URL of an API server: write it as https://host:port")
	case parsed.User != nil:
		return errors.New("the endpoint has a user name in it: give a token instead")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return fmt.Errorf("the endpoint %s has a query or a fragment: write it as https://host:port", parsed.Redacted())
	}
	return nil
}

// refusePlainText refuses to send credentials without TLS, where anyone on the
// network path could read them. Loopback is allowed.
func refusePlainText(config *rest.Config) error {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("the address of the API server: %w", err)
	}
	if server.Scheme == "https" || isLoopback(server.Hostname()) {
		return nil
	}
	if config.BearerToken == "" && config.BearerTokenFile == "" && config.Password == "" &&
		config.ExecProvider == nil && config.AuthProvider == nil {
		return nil
	}
	return fmt.Errorf("%s is not encrypted and would send the token in plain text: use https", server.Redacted())
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
