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
	// webhookAnnotation has the address of the webhook of a Git Source. It is in
	// Git, so that a runtime that is restored knows which ones it had.
	webhookAnnotation = "slipway.dev/webhook"
	// followPause is between two looks at the addresses, and followSoon after one
	// that could not move a webhook.
	followPause = time.Minute
	followSoon  = 5 * time.Second
)

// Run keeps the webhooks of Git Sources where the runtime is, until the context is
// done: its address changes with its access mode. Only the replica that leads runs
// it.
func (s *Service) Run(ctx context.Context) error {
	told := ""
	for {
		pause, text := followPause, ""
		err := s.moveWebhooks(ctx)
		if err != nil && ctx.Err() == nil {
			pause, text = followSoon, err.Error()
		}
		if text != told && text != "" && !errors.Is(err, errNoAddress) {
			s.options.Log.Warn("webhooks of Git Sources lead to another address; it is tried again", observe.KeyError, text)
		}
		told = text
		if err := backoff.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// moveWebhooks moves the webhooks that lead to an address which the runtime had.
func (s *Service) moveWebhooks(ctx context.Context) error {
	list, err := s.options.Home.Applications().List(ctx, metav1.ListOptions{
		LabelSelector: sharedrepo.EntityLabel + "=" + sharedrepo.EntityGitSource,
	})
	if err != nil {
		return fmt.Errorf("list the Git Sources: %w", err)
	}
	var problems []error
	for i := range list.Items {
		problems = append(problems, s.moveWebhook(ctx, &list.Items[i]))
	}
	return errors.Join(problems...)
}

func (s *Service) moveWebhook(ctx context.Context, live *unstructured.Unstructured) error {
	name, before := live.GetName(), live.GetAnnotations()[webhookAnnotation]
	one, is := fromObject(live.Object)
	if !is || before == "" || before == s.webhookURL(name) {
		return nil
	}
	after, err := s.registerWebhook(ctx, one)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	repository, err := s.options.Home.Repository(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	file := sharedrepo.GitSourceFile(s.options.Home.Runtime(), name)
	_, err = repository.Change(ctx, "git source "+name+": webhook", s.options.Home.Committer(), func(files sharedrepo.Files) error {
		if _, found, err := files.Read(file); err != nil || !found {
			return err // it is being deleted
		}
		return files.EditManifest(file, func(object map[string]any) error {
			return unstructured.SetNestedField(object, after, "metadata", "annotations", webhookAnnotation)
		})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.options.Home.Refresh(ctx)
	s.removeWebhook(ctx, name, one.GetRepoUrl(), before)
	s.options.Log.Info("the webhook of a Git Source leads to another address now", "source", name, "url", after)
	return nil
}

// webhookIn is the webhook that the file of a Git Source has.
func webhookIn(text []byte) string {
	var file struct {
		Metadata struct{ Annotations map[string]string }
	}
	if yaml.Unmarshal(text, &file) != nil {
		return ""
	}
	return file.Metadata.Annotations[webhookAnnotation]
}
