// SPDX-License-Identifier: Apache-2.0
// As append.py.

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.stream.Stream;

import static java.nio.file.StandardOpenOption.APPEND;
import static java.nio.file.StandardOpenOption.CREATE;

public class Append {
    public static void main(String[] arguments) throws Exception {
        long until = System.nanoTime() + (long) (Double.parseDouble(arguments[0]) * 1e9);
        List<Callable<long[]>> tasks =
                Stream.of(arguments).skip(1).map(name -> task(name, until)).toList();
        var threads = Executors.newFixedThreadPool(tasks.size());
        long count = 0, sum = 0;
        for (var done : threads.invokeAll(tasks)) {
            count += done.get()[0];
            sum += done.get()[1];
        }
        threads.shutdown();
        System.out.println("appended " + count + " " + (double) sum / count / 1e3);
    }

    static Callable<long[]> task(String name, long until) {
        return () -> {
            long count = 0, sum = 0, begin;
            try (var file = FileChannel.open(Path.of(name), CREATE, APPEND)) {
                while ((begin = System.nanoTime()) < until) {
                    file.write(ByteBuffer.allocateDirect(500));
                    file.force(false);
                    sum += System.nanoTime() - begin;
                    count++;
                }
            }
            return new long[] {count, sum};
        };
    }
}
