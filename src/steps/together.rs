//! Does several things at once and gives their results in order.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::step::sandbox::BoxFuture;

/// Number of things done at once.
pub(super) const AT_ONCE: usize = 8;

/// Runs futures, at most [`AT_ONCE`] at a time, and returns their results in the order of the futures.
pub(super) async fn all<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    at_most(AT_ONCE, futures).await
}

/// Runs futures, at most so many at a time and at least one, and returns their results in the order of the futures.
pub(super) async fn at_most<T>(most: usize, futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let mut waiting = futures.into_iter().enumerate();
    let mut running: Vec<(usize, Pin<Box<_>>)> = waiting.by_ref().take(most.max(1)).collect();
    poll_fn(|cx| {
        let mut at = 0;
        while at < running.len() {
            match running[at].1.as_mut().poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(result) => {
                    results[running[at].0] = Some(result);
                    match waiting.next() {
                        Some(next) => running[at] = next,
                        None => drop(running.swap_remove(at)),
                    }
                }
            }
        }
        if running.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    results
        .into_iter()
        .map(|result| result.expect("bug: a future has no result"))
        .collect()
}

/// Does blocking work on each item, on up to [`AT_ONCE`] threads, and returns the results in the order of the items.
pub(super) fn each<I: Sync, T: Send>(items: &[I], work: impl Fn(usize, &I) -> T + Sync) -> Vec<T> {
    if items.len() <= 1 {
        return items
            .iter()
            .enumerate()
            .map(|(at, item)| work(at, item))
            .collect();
    }
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<T>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let result = work(at, item);
                    *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                }
            });
        }
    });
    let result = |slot: Mutex<Option<T>>| slot.into_inner().unwrap_or_else(PoisonError::into_inner);
    results
        .into_iter()
        .map(|slot| result(slot).expect("bug: a thread left its work undone"))
        .collect()
}

/// Does work that blocks, without holding up other steps where the runtime has other threads for them.
pub(super) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::block_on;

    #[test]
    fn results_stand_in_the_order_of_the_work() {
        let futures: Vec<BoxFuture<'_, usize>> = (0..20)
            .map(|n| -> BoxFuture<'_, usize> {
                Box::pin(async move {
                    for _ in 0..20 - n {
                        tokio::task::yield_now().await;
                    }
                    n
                })
            })
            .collect();
        assert_eq!(block_on(all(futures)), (0..20).collect::<Vec<_>>());
        let items: Vec<usize> = (0..50).collect();
        assert_eq!(
            each(&items, |at, item| at + item),
            (0..50).map(|n| 2 * n).collect::<Vec<_>>()
        );
    }

    #[test]
    fn no_more_than_the_limit_run_at_once() {
        let running = AtomicUsize::new(0);
        let most = AtomicUsize::new(0);
        let futures: Vec<BoxFuture<'_, ()>> = (0..30)
            .map(|_| -> BoxFuture<'_, ()> {
                Box::pin(async {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    running.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        block_on(all(futures));
        assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
    }
}
