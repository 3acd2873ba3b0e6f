package remote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshTransport runs Git's services on the host, one connection per exchange.
type sshTransport struct {
	client *Client
	config *ssh.ClientConfig
	proxy  *proxySettings
}

// newSSH parses the key and prepares the check of the host key. A host is only
// accepted without the check if the Secret disables it by name. Insecure of the
// Secret turns off the check too, as in Argo CD.
func newSSH(c *Client) (*sshTransport, error) {
	key := c.access.Credential.SSHPrivateKey
	if key.IsZero() {
		return nil, failf(Denied, "there is no SSH key for it: add a Secret with the label argocd.argoproj.io/secret-type and the field sshPrivateKey")
	}
	signer, err := ssh.ParsePrivateKey([]byte(key.Reveal()))
	if err != nil {
		if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
			return nil, failf(Invalid, "the SSH key has a passphrase: use one without")
		}
		return nil, failf(Invalid, "the SSH key cannot be read: write the private key in the form of OpenSSH or PEM")
	}
	user := c.address.Canonical().User
	s := &sshTransport{client: c, config: &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}}}
	if s.proxy, err = proxyFor(c.access.Credential); err != nil {
		return nil, err
	}
	if c.access.Credential.InsecureIgnoreHostKey || c.access.Credential.Insecure {
		s.config.HostKeyCallback = ssh.InsecureIgnoreHostKey() //nolint:gosec // The Secret asks for it by name.
		return s, nil
	}
	return s, s.restrictHostKeys()
}

// restrictHostKeys accepts only the keys of known_hosts, and negotiates only
// the algorithms of those keys.
func (s *sshTransport) restrictHostKeys() error {
	check, err := knownHosts(s.client.access.KnownHosts)
	if err != nil {
		return err
	}
	address := s.client.address
	s.config.HostKeyCallback = func(host string, at net.Addr, key ssh.PublicKey) error {
		return hostKeyError(address.Host, key, check(host, at, key))
	}
	s.config.HostKeyAlgorithms = knownAlgorithms(check, address.DialAddress())
	return nil
}

// knownHosts reads the lines. The reader of OpenSSH's form takes files only.
// The file is removed before the first connection: the library has read it by
// then.
func knownHosts(lines []byte) (ssh.HostKeyCallback, error) {
	file, err := os.CreateTemp("", "known_hosts_*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(lines)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	check, err := knownhosts.New(file.Name())
	if err != nil {
		return nil, failf(Invalid, "the known hosts in the ConfigMap argocd-ssh-known-hosts-cm cannot be read: write lines as ssh-keyscan prints them")
	}
	return check, nil
}

// hostKeyError explains a host key that is refused. A changed key is not the
// same as an unknown one: it can be an attack.
func hostKeyError(host string, key ssh.PublicKey, err error) error {
	var unknown *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		return failf(Denied, "the key of the SSH host %s is revoked", host)
	case errors.As(err, &unknown) && len(unknown.Want) > 0:
		return failf(Denied, "the SSH host %s has another key (%s) than the known one: the connection may be intercepted; if the key did change, change it in the ConfigMap argocd-ssh-known-hosts-cm",
			host, ssh.FingerprintSHA256(key))
	}
	return failf(Denied, "the SSH host %s (%s) is not known: add its line of ssh-keyscan to the ConfigMap argocd-ssh-known-hosts-cm",
		host, ssh.FingerprintSHA256(key))
}

// knownAlgorithms returns the key algorithms that known_hosts has for a host.
// Without this restriction the server chooses an algorithm, whose key may be
// another than the one in known_hosts, and an honest host is refused.
func knownAlgorithms(check ssh.HostKeyCallback, hostPort string) []string {
	var unknown *knownhosts.KeyError
	none, err := ssh.NewPublicKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if err != nil || !errors.As(check(hostPort, &net.TCPAddr{}, none), &unknown) {
		return nil
	}
	var kinds []string
	for _, known := range unknown.Want {
		if kind := known.Key.Type(); kind == ssh.KeyAlgoRSA {
			kinds = append(kinds, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA)
		} else {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// close does nothing: each exchange closes its own connection.
func (s *sshTransport) close() {}

// refs runs upload-pack and reads only the advertisement.
func (s *sshTransport) refs(ctx context.Context) (*Advertisement, error) {
	var found *Advertisement
	err := s.run(ctx, uploadPack, func(a *Advertisement, in io.WriteCloser, _ io.Reader) error {
		found = a
		// A flush ends the session without a want. The refs are read already,
		// so that errors of the connection do not matter.
		_, _ = io.WriteString(in, "0000")
		_ = in.Close()
		return nil
	})
	return found, err
}

// fetch runs upload-pack once more. The advertisement of this connection
// replaces the earlier one: capabilities may differ between servers behind one
// name.
func (s *sshTransport) fetch(ctx context.Context, _ *Advertisement, want Want, take func(io.Reader) error) error {
	return s.run(ctx, uploadPack, func(a *Advertisement, in io.WriteCloser, out io.Reader) error {
		message, err := want.request(a)
		if err != nil {
			return err
		}
		if _, err := in.Write(message); err != nil {
			return ConnectionFailure(ctx, err)
		}
		pack, err := want.readPack(out, a)
		if err != nil {
			return ConnectionFailure(ctx, err)
		}
		return take(pack)
	})
}

// run starts the service on the host, reads its ref advertisement and passes
// both pipes to use. The session ends with the connection, which is closed on
// return; Wait is called only to collect the error output.
func (s *sshTransport) run(ctx context.Context, service string, use func(a *Advertisement, in io.WriteCloser, out io.Reader) error) error {
	return s.withSession(ctx, func(session *ssh.Session) error { return s.serve(ctx, session, service, use) })
}

// withSession connects to the host, for one session.
func (s *sshTransport) withSession(ctx context.Context, use func(*ssh.Session) error) error {
	client, err := s.connect(ctx)
	if err != nil {
		return connectError(ctx, err)
	}
	defer func() { _ = client.Close() }()
	// A connection that is closed ends every read and write of it.
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	session, err := client.NewSession()
	if err != nil {
		return ConnectionFailure(ctx, err)
	}
	return use(session)
}

// serve is run in a session.
func (s *sshTransport) serve(ctx context.Context, session *ssh.Session, service string, use func(a *Advertisement, in io.WriteCloser, out io.Reader) error) error {
	in, inErr := session.StdinPipe()
	out, outErr := session.StdoutPipe()
	complaints := &stderrBuffer{}
	// Git reports missing repositories and missing rights on stderr only.
	session.Stderr = complaints
	if err := errors.Join(inErr, outErr, session.Start(service+" "+quote(s.path()))); err != nil {
		return ConnectionFailure(ctx, err)
	}
	a, err := readAdvertisement(out, s.client.maxRefs)
	if err != nil {
		if ctx.Err() == nil {
			// The message on stderr is complete when the session has ended.
			_ = session.Wait()
		}
		if text := complaints.String(); text != "" && ctx.Err() == nil {
			return serverError(text)
		}
		return ConnectionFailure(ctx, err)
	}
	return use(a, in, out)
}

// connect includes the handshake, which the library does not bound.
func (s *sshTransport) connect(ctx context.Context) (*ssh.Client, error) {
	address := s.client.address.DialAddress()
	connection, err := s.proxy.dial(ctx, s.client.access.Outbound, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	// The deadline covers the handshake and is removed after it: a fetch may
	// take long.
	_ = connection.SetDeadline(time.Now().Add(30 * time.Second))
	upgraded, channels, requests, err := ssh.NewClientConn(connection, address, s.config)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	_ = connection.SetDeadline(time.Time{})
	return ssh.NewClient(upgraded, channels, requests), nil
}

// connectError explains an error of the SSH handshake. The library has no types
// for these errors, so that their text decides.
func connectError(ctx context.Context, err error) error {
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return failure
	case ctx.Err() == nil && strings.Contains(err.Error(), "unable to authenticate"):
		return failf(Denied, "the server does not let this SSH key in: add its public key there")
	case ctx.Err() == nil && strings.Contains(err.Error(), "no common algorithm"):
		return failf(Denied, "the server has no host key of the known kind: add all lines of ssh-keyscan to the ConfigMap argocd-ssh-known-hosts-cm")
	}
	return ConnectionFailure(ctx, err)
}

// path is the path for the server. As with Git, ~ at the beginning is a home
// directory.
func (s *sshTransport) path() string {
	path := s.client.address.PlainPath()
	if s.client.address.Home || strings.HasPrefix(path, "~") {
		return path
	}
	return "/" + path
}

// quote makes a text one word for any shell.
func quote(text string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(text) + "'"
}

// stderrBuffer keeps the beginning of the error output of a session.
type stderrBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes everything and keeps some.
func (c *stderrBuffer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if room := 4096 - c.text.Len(); room > 0 {
		c.text.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// String returns what was kept.
func (c *stderrBuffer) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.TrimSpace(c.text.String())
}
