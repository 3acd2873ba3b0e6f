package trafficreport

import (
	"math"
	"math/bits"
	"time"
)

// Durations are counted in buckets of a quarter of a power of two, from 128 µs to
// more than a minute: a quantile is off by a quarter at most.
const (
	// Buckets is the number of buckets. The first has all shorter durations, the
	// last all longer ones.
	Buckets = 2 + octaves*parts

	firstOctave = 7 // 2^7 µs
	octaves     = 19
	parts       = 1 << partBits
	partBits    = 2
)

// BucketOf returns the bucket of a duration.
func BucketOf(took time.Duration) int {
	if took < 0 {
		return 0
	}
	micros := uint64(took / time.Microsecond)
	octave := bits.Len64(micros) - 1
	if octave < firstOctave {
		return 0
	}
	if octave >= firstOctave+octaves {
		return Buckets - 1
	}
	part := int(micros>>(octave-partBits)) & (parts - 1)
	return 1 + (octave-firstOctave)*parts + part
}

// bucketStart returns the shortest duration of a bucket.
func bucketStart(bucket int) time.Duration {
	if bucket <= 0 {
		return 0
	}
	octave, part := firstOctave+(bucket-1)/parts, (bucket-1)%parts
	return time.Duration(uint64(parts+part)<<(octave-partBits)) * time.Microsecond
}

// BucketEnd returns the end of a bucket. The last has none: its end is a duration that
// nothing takes.
func BucketEnd(bucket int) time.Duration {
	if bucket >= Buckets-1 {
		return math.MaxInt64
	}
	return bucketStart(bucket + 1)
}

// Quantile returns the duration that a fraction of the requests did not exceed: 0.5
// is the median. It is 0 without requests. Sums over a long time have larger
// numbers than an edge.
func Quantile[N uint32 | uint64](spread []N, part float64) time.Duration {
	var total uint64
	for _, n := range spread {
		total += uint64(n)
	}
	if total == 0 {
		return 0
	}
	wanted := part * float64(total)
	var below float64
	for bucket, n := range spread {
		if n == 0 {
			continue
		}
		if below+float64(n) >= wanted {
			start, end := bucketStart(bucket), bucketStart(bucket+1)
			if bucket >= Buckets-1 {
				return start
			}
			inside := max(0, wanted-below) / float64(n)
			return start + time.Duration(float64(end-start)*inside)
		}
		below += float64(n)
	}
	return bucketStart(len(spread))
}
