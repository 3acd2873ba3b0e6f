package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway.dev/slipway/internal/config"
)

// TestSecretIsNeverShown prints a secret, and structs that hold one, in every
// way that a program prints values.
func TestSecretIsNeverShown(t *testing.T) {
	const hidden = "hunter2"
	secret := config.NewSecret(hidden)
	if secret.Reveal() != hidden || secret.IsZero() {
		t.Fatal("the value is lost")
	}
	edge := mustLoad(t, "--providers.kubernetesingress.token="+hidden)
	inside := struct {
		provider config.KubernetesIngress // unexported: fmt calls no methods on it
		pointer  *config.Secret
		Exported config.Secret
	}{*edge.Providers.KubernetesIngress, &secret, secret}

	var out bytes.Buffer
	for _, value := range []any{secret, &secret, inside, &inside, edge, *edge.Providers.KubernetesIngress, []config.Secret{secret}, map[string]config.Secret{"a": secret}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
		for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(handler).Info("secret", "value", value)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	for _, value := range []any{secret, edge} {
		text, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	text, err := secret.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	for _, shown := range []string{hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("%X", hidden)} {
		if i := strings.Index(out.String(), shown); i >= 0 {
			t.Fatalf("shown: …%s…", out.String()[max(0, i-80):i+20])
		}
	}
	if !strings.Contains(out.String(), "[redacted]") {
		t.Error("nothing says that there is a secret")
	}
}

func TestNoSecret(t *testing.T) {
	var none config.Secret
	text, err := json.Marshal(map[string]any{"a": none, "b": config.NewSecret("")})
	if got := string(text); err != nil || got != `{"a":"","b":""}` {
		t.Errorf("got %s, %v", got, err)
	}
	if !none.IsZero() || none.Reveal() != "" || fmt.Sprint(none) != "" {
		t.Error("the zero secret has a value")
	}
}
