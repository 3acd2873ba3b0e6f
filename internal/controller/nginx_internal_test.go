package controller

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/ingress/nginx"
)

// lineWriter passes on the lines of a log.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// TestFollowConfigMap: a change of the file is passed on, one that cannot be used is logged
// and changes nothing, and the next one counts again.
func TestFollowConfigMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "configmap.yaml")
	write := func(data string) {
		t.Helper()
		// A file that is replaced is never half there.
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ingress-nginx-controller}\ndata: {" + data + "}\n"
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("proxy-body-size: 2m")
	seen, err := readConfigMapFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	applied, lines := make(chan *nginx.Settings, 1), make(lineWriter, 4)
	var running sync.WaitGroup
	running.Go(func() {
		options := &config.KubernetesIngressNGINX{ConfigMapFile: path, AllowSnippetAnnotations: true}
		follower := &configMapFollower{options: options, period: time.Millisecond, seen: seen, log: slog.New(slog.NewTextHandler(lines, nil))}
		follower.apply = func(s *nginx.Settings) { applied <- s }
		follower.run(ctx)
	})
	defer running.Wait()
	defer cancel()
	for _, size := range []int64{3, 4} {
		write("proxy-body-size: " + string(rune('0'+size)) + "m")
		if got := <-applied; got.BodyBytes != size<<20 || !got.Snippets.Allowed {
			t.Errorf("the limit is %d, snippets are allowed: %t; want %d MiB", got.BodyBytes, got.Snippets.Allowed, size)
		}
		if line := <-lines; !strings.Contains(line, "level=INFO") {
			t.Errorf("logged %s", line)
		}
	}
	write("proxy-body-size: much")
	if line := <-lines; !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "proxy-body-size") {
		t.Errorf("logged %s", line)
	}
	write("proxy-body-size: 5m")
	if got := <-applied; got.BodyBytes != 5<<20 {
		t.Errorf("the limit is %d, want 5 MiB", got.BodyBytes)
	}
}
