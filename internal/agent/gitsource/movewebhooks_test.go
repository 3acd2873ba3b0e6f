package gitsource_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/agent/gitsource"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// R53, R72: when the runtime is reached another way, the webhooks of its Git Sources
// lead there, and no longer where it was, in Git too. A Git Source without a
// webhook gets none.
func TestWebhooksFollow(t *testing.T) {
	w := newWorld(t)
	w.runAgent(t)
	url := w.guestbook(t)
	w.credentials(t, &runtimev1.SetRuntimeCredentialsRequest{})
	w.synced(t, "demo-in-cluster")
	for name, hook := range map[string]bool{"apps": true, "polled": false} {
		must.Get(w.client.CreateGitSource(t.Context(), connect.NewRequest(&runtimev1.CreateGitSourceRequest{
			GitSource: &runtimev1.GitSource{Name: name, RepoUrl: url, Path: "apps"}, RegisterWebhook: hook,
		})))(t)
	}
	w.synced(t, "apps")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	moved := gitsource.New(gitsource.Options{
		SharedRepository: w.home, Integrations: w.integrations, WebhookSecret: "argocd-secret", Log: slog.New(slog.NewTextHandler(w.log, nil)),
		WebhookURL: func(source string) string { return "https://ingress.example.com/webhooks/demo/" + source },
	})
	go func() { ended <- moved.Run(ctx) }()
	const want = "https://ingress.example.com/webhooks/demo/apps"
	w.until(t, func(context.Context) error {
		hooks := w.provider.Hooks("team/apps")
		if len(hooks) != 1 || hooks[0].URL != want || hooks[0].Secret == "" {
			return fmt.Errorf("the webhooks are %v", hooks)
		}
		if live := w.synced(t, "apps").Annotations["slipway.dev/webhook"]; live != want {
			return fmt.Errorf("the Application says %q", live)
		}
		return nil
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if who := w.shared(t).Git(t, "log", "-1", "--format=%cn|%s", "refs/heads/live"); who != "Slipway runtime demo|git source apps: webhook" {
		t.Errorf("the commit is %q", who)
	}
	must.Get(w.client.DeleteGitSource(t.Context(), connect.NewRequest(&runtimev1.DeleteGitSourceRequest{Name: "apps"})))(t)
	if hooks := w.provider.Hooks("team/apps"); len(hooks) != 0 {
		t.Errorf("after the deletion the webhooks are %v", hooks)
	}
	if strings.Contains(w.log.String(), "canary0") {
		t.Error("a token is in the log")
	}
}
