package kube_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
)

// A list that would fail as the stream did is not sent, and its failure is
// observed as that of the list.
func TestReflectorDoesNotRepeatADeniedRequest(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no"))
	const attempts = 3
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var observed []string // only the reflector's goroutine writes it
	reflector := kube.Reflector{
		Example: &corev1.ConfigMap{},
		Store:   cache.NewStore(cache.MetaNamespaceKeyFunc),
		Backoff: backoff.Policy{First: time.Millisecond, Longest: 4 * time.Millisecond, JitterUp: 0.5},
		Requests: kube.ListWatcher{
			List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				t.Error("a list was sent that had to fail")
				return nil, denied
			},
			Watch: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
				if options.SendInitialEvents == nil || !*options.SendInitialEvents {
					t.Error("the first request is not for a stream that begins with all objects")
				}
				return nil, denied
			},
		},
		Observe: func(verb string, err error) {
			if !errors.Is(err, denied) {
				t.Errorf("%s: %v", verb, err)
			}
			if observed = append(observed, verb); len(observed) == attempts {
				cancel()
			}
		},
	}
	reflector.Run(ctx)
	if want := slices.Repeat([]string{kube.VerbList}, attempts); !slices.Equal(observed, want) {
		t.Errorf("observed %v, want %v", observed, want)
	}
}
