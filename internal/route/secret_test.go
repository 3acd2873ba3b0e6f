package route

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

const canary = "canary-5f2c"

func secretTable() *Table {
	inner := Policy{BasicAuth: &BasicAuth{Users: NewSecret(canary)}}
	return &Table{
		Rules: []*Rule{{
			ID:       ID{Name: "a"},
			Policies: []Policy{inner, {Chain: &Chain{Policies: []Policy{inner}}}},
			Response: &Response{Status: 204},
		}},
		Certificates: []*Certificate{{ID: CertificateID{Name: "c"}, Chain: "pem", Key: NewSecret(canary)}},
	}
}

func TestSecretsStayHidden(t *testing.T) {
	table := secretTable()
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x",
		"table", table, "key", table.Certificates[0].Key, "rule", table.Rules[0].Policies[0].BasicAuth)
	shown := must.Get(json.Marshal(table))(t)
	key := table.Certificates[0].Key
	private := struct{ inner Secret }{key}
	for name, text := range map[string]string{
		"log":     log.String(),
		"json":    string(shown),
		"verbs":   fmt.Sprintf("%v %+v %#v %s %q %x %d", key, key, key, key, key, key, key),
		"struct":  fmt.Sprintf("%v %+v %#v", *table.Certificates[0], *table.Certificates[0], *table.Certificates[0]),
		"private": fmt.Sprintf("%v %+v %#v", private, private, private),
		"diff":    fmt.Sprintf("%+v", Diff(nil, table)),
	} {
		if strings.Contains(text, canary) {
			t.Errorf("%s shows the secret: %s", name, text)
		}
	}
	if !strings.Contains(string(shown), secret.Redacted) {
		t.Errorf("the JSON does not say that something is hidden: %s", shown)
	}
}

func TestEncodeWritesSecrets(t *testing.T) {
	var written bytes.Buffer
	table := secretTable()
	must.Do(t, Encode(&written, table))
	if count := strings.Count(written.String(), canary); count != 3 {
		t.Errorf("%d secrets are written, want 3: %s", count, written.String())
	}
	read := must.Get(Decode(&written))(t)
	if change := Diff(table, read); !change.Empty() {
		t.Errorf("read back differently: %+v", change)
	}
	shown, err := json.Marshal(table)
	if err != nil || strings.Contains(string(shown), canary) {
		t.Errorf("writing made the original show itself: %s, %v", shown, err)
	}
}

func TestDecodeRefusesHiddenSecrets(t *testing.T) {
	shown, err := json.Marshal(secretTable())
	must.Do(t, err)
	_, err = Decode(bytes.NewReader(shown))
	if err == nil || !strings.Contains(err.Error(), "certificates[0].key: the secret was hidden") {
		t.Errorf("error %v", err)
	}
}
