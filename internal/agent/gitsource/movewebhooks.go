package gitsource

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/observe"
)

const (
	// webhookAnnotation has the address of the webhook of a Git Source. It is
	// stored in Git, so that a restored runtime can find and move its webhooks.
	webhookAnnotation = "slipway.dev/webhook"
	// webhookCheckInterval is the time between two checks of the addresses, and
	// webhookRetryDelay the time after a failed move.
	webhookCheckInterval = time.Minute
	webhookRetryDelay    = 5 * time.Second
)

// Run moves the webhooks of Git Sources to the runtime's current address, which
// changes with its access mode, until the context is done. Only the leader runs
// it.
func (s *Service) Run(ctx context.Context) error {
	// This is the last logged error, so that a lasting one is logged once and
	// not every few seconds.
	lastProblem := ""
	for {
		pause, text := webhookCheckInterval, ""
		err := s.moveWebhooks(ctx)
		if err != nil && ctx.Err() == nil {
			pause, text = webhookRetryDelay, err.Error()
		}
		if text != lastProblem && text != "" && !errors.Is(err, errNoAddress) {
			s.options.Log.Warn("cannot move webhooks of Git Sources; retrying", observe.KeyError, text)
		}
		lastProblem = text
		if err := backoff.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// moveWebhooks moves every webhook that has an earlier address of the runtime.
func (s *Service) moveWebhooks(ctx context.Context) error {
	list, err := s.options.SharedRepository.Applications().List(ctx, metav1.ListOptions{
		LabelSelector: sharedrepo.EntityLabel + "=" + sharedrepo.EntityGitSource,
	})
	if err != nil {
		return fmt.Errorf("list the Git Sources: %w", err)
	}
	var problems []error
	for i := range list.Items {
		// One source that fails does not keep the others from being moved; Join
		// drops nil errors.
		problems = append(problems, s.moveWebhook(ctx, &list.Items[i]))
	}
	return errors.Join(problems...)
}

// moveWebhook registers the new address, commits it, and removes the old one,
// in this order: a crash in between leaves a webhook too many and never none.
func (s *Service) moveWebhook(ctx context.Context, live *unstructured.Unstructured) error {
	name, before := live.GetName(), live.GetAnnotations()[webhookAnnotation]
	// Sources without a webhook stay without: their users chose polling.
	one, is := fromObject(live.Object)
	if !is || before == "" || before == s.webhookURL(name) {
		return nil
	}
	after, err := s.registerWebhook(ctx, one)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	// No user requested this commit, so that the runtime is the author.
	_, err = s.change(ctx, name, "webhook", func(files sharedrepo.Files, file string) error {
		if _, found, err := files.Read(file); err != nil || !found {
			return err // it is being deleted
		}
		return sharedrepo.EditManifest(files, file, func(object map[string]any) error {
			return unstructured.SetNestedField(object, after, "metadata", "annotations", webhookAnnotation)
		})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.removeWebhook(ctx, name, one.GetRepoUrl(), before)
	s.options.Log.Info("moved webhook of Git Source", "source", name, "url", after)
	return nil
}

// webhookIn returns the webhook in the file of a Git Source; empty if it has
// none.
func webhookIn(text []byte) string {
	var file struct {
		Metadata struct{ Annotations map[string]string }
	}
	if yaml.Unmarshal(text, &file) != nil {
		return ""
	}
	return file.Metadata.Annotations[webhookAnnotation]
}
