// SPDX-License-Identifier: Apache-2.0
// As append.py; a file is synchronised with fsync.

package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

var block = make([]byte, 500)

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	until := time.Now().Add(time.Duration(seconds * 1e9))
	names := os.Args[2:]
	counts, sums := make([]int, len(names)), make([]time.Duration, len(names))
	var all sync.WaitGroup
	for number, name := range names {
		all.Add(1)
		go func(number int, name string) {
			counts[number], sums[number] = appendTo(name, until)
			all.Done()
		}(number, name)
	}
	all.Wait()
	var count int
	var sum time.Duration
	for number := range names {
		count, sum = count+counts[number], sum+sums[number]
	}
	fmt.Println("appended", count, float64(sum.Nanoseconds())/float64(count)/1e3)
}

func appendTo(name string, until time.Time) (count int, sum time.Duration) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	for begin := time.Now(); err == nil && begin.Before(until); begin = time.Now() {
		if _, err = file.Write(block); err == nil {
			err = file.Sync()
		}
		sum += time.Since(begin)
		count++
	}
	if err != nil {
		panic(err)
	}
	return
}
