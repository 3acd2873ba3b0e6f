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
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// TestSecretIsNeverShown prints a secret, and structs that hold one, in every
// way that a program prints values.
func TestSecretIsNeverShown(t *testing.T) {
	const hidden = "hunter2"
	token := secret.New(hidden)
	if token.Reveal() != hidden || token.IsZero() {
		t.Fatal("the value is lost")
	}
	edge := mustLoad(t, "--providers.kubernetesingress.token="+hidden)
	inside := struct {
		provider config.KubernetesIngress // unexported: fmt calls no methods on it
		pointer  *secret.Text
		Exported secret.Text
	}{*edge.Providers.KubernetesIngress, &token, token}

	var out bytes.Buffer
	for _, value := range []any{token, &token, inside, &inside, edge, *edge.Providers.KubernetesIngress, []secret.Text{token}, map[string]secret.Text{"a": token}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
		for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(handler).Info("secret", "value", value)
		}
		text := must.Get(json.Marshal(value))(t)
		out.Write(text)
	}
	for _, value := range []any{token, edge} {
		text := must.Get(yaml.Marshal(value))(t)
		out.Write(text)
	}
	text := must.Get(token.MarshalText())(t)
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
	var none secret.Text
	text, err := json.Marshal(map[string]any{"a": none, "b": secret.New("")})
	if got := string(text); err != nil || got != `{"a":"","b":""}` {
		t.Errorf("got %s, %v", got, err)
	}
	if !none.IsZero() || none.Reveal() != "" || fmt.Sprint(none) != "" {
		t.Error("the zero secret has a value")
	}
}
