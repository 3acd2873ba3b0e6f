package webhook

import (
	"sync"
	"time"
)

// maxSources bounds the sources with a bucket of their own. The others share
// one.
const maxSources = 4096

// limiter lets a number of requests of each source through in a minute.
type limiter struct {
	mutex   sync.Mutex
	buckets map[string]*bucket
}

// bucket is what a source has left, as of a time.
type bucket struct {
	left float64
	at   time.Time
}

// allow reports whether a source may send a request, and how long it should
// wait otherwise. A flood from many addresses shares one bucket above
// maxSources, so that memory stays bounded.
func (l *limiter) allow(source string, perMinute, burst int, now time.Time) (wait time.Duration, allowed bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.buckets == nil {
		l.buckets = map[string]*bucket{}
	}
	// A token bucket for each source.
	perSecond := float64(perMinute) / 60
	found := l.buckets[source]
	if found == nil {
		if len(l.buckets) >= maxSources {
			l.evict(perSecond, burst, now)
		}
		if len(l.buckets) >= maxSources {
			source = "" // no source is called so
			found = l.buckets[source]
		}
	}
	if found == nil {
		found = &bucket{left: float64(burst), at: now}
		l.buckets[source] = found
	}
	found.fill(perSecond, burst, now)
	if found.left < 1 {
		return time.Duration((1 - found.left) / perSecond * float64(time.Second)), false
	}
	found.left--
	return 0, true
}

// fill adds the tokens since the last request, up to the burst.
func (b *bucket) fill(perSecond float64, burst int, now time.Time) {
	b.left = min(float64(burst), b.left+max(0, now.Sub(b.at).Seconds())*perSecond)
	b.at = now
}

// evict drops the sources that are as if they had never sent anything.
func (l *limiter) evict(perSecond float64, burst int, now time.Time) {
	for source, b := range l.buckets {
		b.fill(perSecond, burst, now)
		if b.left >= float64(burst) {
			delete(l.buckets, source)
		}
	}
}
