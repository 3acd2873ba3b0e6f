package gittest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"slipway.dev/slipway/internal/must"
)

// longestLog bounds the log of sshd that a failure shows: the message of the test is
// above it.
const longestLog = 1 << 10

// sshServer hands each connection to an sshd of its own, as inetd does: so
// there is no daemon to look for a port for, nor to end.
type sshServer struct {
	listener   net.Listener
	config     string
	log        string
	folder     string // has programs that a host may have besides Git
	privateKey string
	knownHosts string

	mu          sync.Mutex
	connections map[net.Conn]bool
	running     sync.WaitGroup
}

// ServeSSH starts OpenSSH's sshd for the repositories. One key of a client is
// let in, as the user of the test. It ends with the test.
func ServeSSH(t testing.TB) *Server {
	t.Helper()
	program := sshd(t)
	me := must.Get(user.Current())(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{root: t.TempDir(), ended: ctx}
	s.ssh = &sshServer{listener: listener, connections: map[net.Conn]bool{}}
	s.ssh.prepare(t)
	s.address = func(folder string) string {
		return fmt.Sprintf("ssh://%s@%s%s", me.Username, listener.Addr(), filepath.Join(s.root, folder))
	}
	s.ssh.running.Go(func() { s.acceptSSH(program) })
	// No new connection may come while the open ones are shut down, so that the
	// listener is closed before them.
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		s.ssh.closeAll()
		s.ssh.running.Wait()
		if log, err := os.ReadFile(s.ssh.log); t.Failed() && err == nil {
			t.Logf("sshd:\n%s", log[max(0, len(log)-longestLog):])
		}
	})
	return s
}

// PrivateKey is the key, in OpenSSH's form, that the server lets in.
func (s *Server) PrivateKey() string { return s.ssh.privateKey }

// KnownHosts is the line of a known_hosts file for the server.
func (s *Server) KnownHosts() string { return s.ssh.knownHosts }

// sshd is the program. It needs its folder for separated privileges, which is
// made by the system's start script where sshd is a service.
func sshd(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		if program, err = exec.LookPath("sshd"); err != nil {
			t.Fatalf("sshd is missing: install the package openssh-server, make deps does: %v", err)
		}
	}
	if os.Geteuid() == 0 {
		must.Do(t, os.MkdirAll("/run/sshd", 0o755))
	}
	return program
}

// prepare makes the keys and the configuration. StrictModes is off because
// folders of tests can be writable by the group.
func (s *sshServer) prepare(t testing.TB) {
	t.Helper()
	folder := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(folder, name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	host, hostKey := newKey(t)
	client, clientKey := newKey(t)
	s.privateKey = clientKey
	s.knownHosts = fmt.Sprintf("[127.0.0.1]:%d %s", s.listener.Addr().(*net.TCPAddr).Port, ssh.MarshalAuthorizedKey(host))
	s.log = filepath.Join(folder, "log")
	s.config = file("sshd_config", fmt.Sprintf(`HostKey %s
AuthorizedKeysFile %s
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding no
SetEnv PATH=%s:%s
`, file("host_key", hostKey), file("authorized_keys", string(ssh.MarshalAuthorizedKey(client))), folder, os.Getenv("PATH")))
	s.folder = folder
}

// newKey returns a new key pair. ed25519 is fast to generate.
func newKey(t testing.TB) (ssh.PublicKey, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	block := must.Get(ssh.MarshalPrivateKey(private, "gittest"))(t)
	key := must.Get(ssh.NewPublicKey(public))(t)
	return key, string(pem.EncodeToMemory(block))
}

// acceptSSH starts one sshd process for each connection, in inetd mode: sshd
// needs no port of its own.
func (s *Server) acceptSSH(program string) {
	for {
		connection, err := s.ssh.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		s.ssh.running.Go(func() {
			defer s.ssh.untrack(connection)
			s.ssh.track(connection)
			if s.waitAdmission(s.ended, "CONNECT") {
				s.ssh.serve(program, connection)
			}
		})
	}
}

// serve runs sshd with the connection as its standard input, and waits.
func (s *sshServer) serve(program string, connection net.Conn) {
	socket, err := connection.(*net.TCPConn).File()
	if err != nil {
		return
	}
	defer func() { _ = socket.Close() }()
	// -i is inetd mode: the connection is the standard input.
	cmd := exec.Command(program, "-i", "-f", s.config, "-E", s.log)
	cmd.Stdin, cmd.Stdout = socket, socket
	// The error is in the log, which is printed when the test fails.
	_ = cmd.Run()
}

// track registers a connection, so that closeAll can close it.
func (s *sshServer) track(connection net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections[connection] = true
}

// untrack removes a connection that has ended.
func (s *sshServer) untrack(connection net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.connections, connection)
	_ = connection.Close()
}

// closeAll ends the connections, which ends the programs that serve them. Both
// directions are shut down instead of a close: sshd holds a copy of the socket,
// which a close here would not end.
func (s *sshServer) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for connection := range s.connections {
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.CloseRead()
			_ = tcp.CloseWrite()
		}
	}
}
