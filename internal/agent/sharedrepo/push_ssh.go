package sharedrepo

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"slipway.dev/slipway/internal/gitops/source/remote"
)

// sshHandshake bounds what the library does not.
const sshHandshake = 30 * time.Second

// pushSSH runs Git's program at the host. That the host is the known one is
// checked again: it is another connection than the one that fetched.
func (r *Repository) pushSSH(ctx context.Context, message []byte) ([]byte, error) {
	client, err := r.dialSSH(ctx)
	if err != nil {
		return nil, explainSSH(err)
	}
	defer func() { _ = client.Close() }()
	// A connection that is closed ends every read and write of it.
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	session, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	in, inErr := session.StdinPipe()
	out, outErr := session.StdoutPipe()
	if err := errors.Join(inErr, outErr, session.Start(receivePack+" "+shellWord(r.sshPath()))); err != nil {
		return nil, err
	}
	if err := skipAdvertisement(out); err != nil {
		return nil, err
	}
	if _, err := in.Write(message); err != nil {
		return nil, err
	}
	if err := in.Close(); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(out, maxReport))
}

func (r *Repository) dialSSH(ctx context.Context) (*ssh.Client, error) {
	signer, err := ssh.ParsePrivateKey([]byte(r.options.Access.Credential.SSHPrivateKey.Reveal()))
	if err != nil {
		return nil, &remote.Failure{Reason: remote.Denied, Message: "there is no SSH key for it that can be used: set one with the Git credentials of the runtime"}
	}
	config := &ssh.ClientConfig{User: r.address.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}}
	if config.User == "" {
		config.User = "git"
	}
	port := r.address.Port
	if port == "" {
		port = "22"
	}
	address := net.JoinHostPort(r.address.Host, port)
	check, err := readKnownHosts(r.options.Access.KnownHosts)
	if err != nil {
		return nil, err
	}
	config.HostKeyCallback, config.HostKeyAlgorithms = check, knownAlgorithms(check, address)
	dialer := net.Dialer{Timeout: sshHandshake}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	_ = connection.SetDeadline(time.Now().Add(sshHandshake))
	upgraded, channels, requests, err := ssh.NewClientConn(connection, address, config)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	_ = connection.SetDeadline(time.Time{})
	return ssh.NewClient(upgraded, channels, requests), nil
}

// readKnownHosts reads the lines. The reader of OpenSSH's form takes files only.
func readKnownHosts(lines []byte) (ssh.HostKeyCallback, error) {
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
		return nil, &remote.Failure{Reason: remote.Invalid, Message: "the known hosts cannot be read: write lines as ssh-keyscan prints them"}
	}
	return check, nil
}

// knownAlgorithms is the kinds of keys that are known of a host: otherwise the
// server chooses one, which may be another than the known.
func knownAlgorithms(check ssh.HostKeyCallback, address string) []string {
	var unknown *knownhosts.KeyError
	none, err := ssh.NewPublicKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if err != nil || !errors.As(check(address, &net.TCPAddr{}, none), &unknown) {
		return nil
	}
	var kinds []string
	for _, known := range unknown.Want {
		if kind := known.Key.Type(); kind == ssh.KeyAlgoRSA {
			kinds = append(kinds, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func explainSSH(err error) error {
	var unknown *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case errors.As(err, &unknown), errors.As(err, &revoked):
		return &remote.Failure{Reason: remote.Denied, Message: "the SSH host is not known, or has another key than the known one: set its line of ssh-keyscan with the Git credentials of the runtime"}
	case strings.Contains(err.Error(), "unable to authenticate"):
		return &remote.Failure{Reason: remote.Denied, Message: "the server does not let this SSH key in: add its public key there"}
	}
	return err
}

// sshPath is what the server is asked for. As with Git, ~ at the beginning is a
// home.
func (r *Repository) sshPath() string {
	if strings.HasPrefix(r.address.Path, "/~") {
		return r.address.Path[1:]
	}
	return r.address.Path
}

// shellWord makes a text one word for any shell.
func shellWord(text string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(text) + "'"
}
