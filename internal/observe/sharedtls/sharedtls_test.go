package sharedtls_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"testing"

	"slipway.dev/slipway/internal/observe/sharedtls"
)

func TestHandshake(t *testing.T) {
	one, two := bytes.Repeat([]byte("a"), sharedtls.MinSecret), bytes.Repeat([]byte("b"), sharedtls.MinSecret)
	server := func(secret []byte, purpose string) *tls.Config {
		config, err := sharedtls.Server(secret, purpose)
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	client := func(secret []byte, purpose string) *tls.Config {
		config, err := sharedtls.Client(secret, purpose)
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	for _, c := range []struct {
		name             string
		near, far        *tls.Config
		nearOK, farOK    bool
		nearNoCert, same bool
	}{
		{name: "the same secret", near: client(one, "x"), far: server(one, "x"), nearOK: true, farOK: true},
		{name: "another secret", near: client(two, "x"), far: server(one, "x")},
		{name: "another purpose", near: client(one, "y"), far: server(one, "x")},
		{name: "a server as a client", near: server(one, "x"), far: server(one, "x")},
		{name: "nobody", near: &tls.Config{InsecureSkipVerify: true}, far: server(one, "x"), nearOK: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := net.Pipe()
			defer a.Close()
			defer b.Close()
			far := make(chan error, 1)
			go func() {
				conn := tls.Server(b, c.far)
				err := conn.Handshake()
				far <- err
				b.Close()
			}()
			err := tls.Client(a, c.near).Handshake()
			if err != nil {
				a.Close()
			}
			farErr := <-far
			if (err == nil) != c.nearOK && !(c.nearOK && farErr != nil) {
				t.Errorf("client: %v", err)
			}
			if (farErr == nil) != c.farOK {
				t.Errorf("server: %v", farErr)
			}
		})
	}
	if _, err := sharedtls.Server([]byte("short"), "x"); err == nil {
		t.Error("a short secret is taken")
	}
}
